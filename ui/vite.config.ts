import { defineConfig } from "vite";

// STEADYHELM_PAGE_OUT lets a check build beside the committed files and compare the two.
const outDir = process.env["STEADYHELM_PAGE_OUT"] ?? "../src/steadyhelm/server/page";

export default defineConfig({
  // Relative addresses and hash routes work under any mount point.
  base: "./",
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
    rolldownOptions: {
      onLog(level, log, pass) {
        // "use client" is for servers that render React; nothing is lost without it.
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") pass(level, log);
      },
    },
  },
  server: {
    proxy: { "/api": { target: process.env["STEADYHELM_API"] ?? "http://127.0.0.1:8765" } },
  },
});
