// Write package-lock.json without addresses: packages are known by name, version and digest.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

execFileSync("npm", ["install", "--package-lock-only"], { stdio: "inherit" });
const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const entry of Object.values(lock.packages)) {
  delete entry.resolved;
  delete entry.funding;
}
writeFileSync("package-lock.json", `${JSON.stringify(lock, null, 2)}\n`);
