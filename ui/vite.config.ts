import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join, sep } from "node:path";

import { defineConfig } from "vite";
import type { Plugin } from "vite";

// STEADYHELM_PAGE_OUT lets a check build beside the committed files and compare the two.
const outDir = process.env["STEADYHELM_PAGE_OUT"] ?? "../src/steadyhelm/server/page";

/** Write NOTICES.txt: the licence of every package of which something is in the built files. */
function writeNotices(): Plugin {
  return {
    name: "write-notices",
    generateBundle(_options, bundle) {
      const packages = new Set<string>();
      for (const output of Object.values(bundle)) {
        if (output.type !== "chunk") continue;
        for (const id of Object.keys(output.modules)) {
          const folder = findPackage(id);
          if (folder) packages.add(folder);
        }
      }
      const parts = [...packages].toSorted().map(describePackage);
      this.emitFile({ type: "asset", fileName: "NOTICES.txt", source: `${NOTICES_HEAD}\n${parts.join("\n")}` });
    },
  };
}

const NOTICES_HEAD = "The page contains parts of these packages.\n";

function findPackage(id: string): string | null {
  const cut = id.lastIndexOf(`node_modules${sep}`);
  if (cut < 0) return null;
  const start = cut + "node_modules".length + 1;
  const [first = "", second = ""] = id.slice(start).split(sep);
  return id.slice(0, start) + (first.startsWith("@") ? join(first, second) : first);
}

function describePackage(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    name: string;
    version: string;
    license: string;
  };
  const file = readdirSync(folder).find((each) => /^licen[cs]e(\.(md|txt))?$/i.test(each));
  if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no licence file.`);
  const text = readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim();
  return `${"-".repeat(72)}\n${name} ${version} (${license})\n\n${text}\n`;
}

export default defineConfig({
  // Relative addresses and hash routes work under any mount point.
  base: "./",
  plugins: [writeNotices()],
  oxc: { jsx: { runtime: "automatic" } },
  build: {
    outDir,
    emptyOutDir: true,
    target: "es2023",
    // No inline script, style or data address: the page's content security policy allows none.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
    // One style sheet: the same order of rules whichever page is opened first, and it packs better.
    cssCodeSplit: false,
    rolldownOptions: {
      onLog(level, log, pass) {
        // "use client" is for servers that render React; nothing is lost without it.
        if (log.code !== "MODULE_LEVEL_DIRECTIVE" && log.code !== "PLUGIN_TIMINGS") pass(level, log);
      },
    },
  },
  server: {
    proxy: { "/api": { target: process.env["STEADYHELM_API"] ?? "http://127.0.0.1:8765" } },
  },
});
