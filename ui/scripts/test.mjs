/** Bundle every `*.test.ts` with Vite and run them with Node's own test runner. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const tests = findTests(join(root, "src"));
const outDir = mkdtempSync(join(tmpdir(), "steadyhelm-page-tests-"));
let status = 1;
try {
  await build({
    root,
    configFile: false,
    logLevel: "error",
    build: { ssr: true, outDir, emptyOutDir: true, rolldownOptions: { input: tests } },
  });
  const built = readdirSync(outDir)
    .filter((name) => name.includes(".test."))
    .map((name) => join(outDir, name));
  status = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(outDir, { recursive: true, force: true });
}
process.exitCode = status;

function findTests(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join(folder, name));
}
