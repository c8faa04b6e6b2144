// Write src/api/types.ts from the server's schema. A test compares the digest in its head with the schema's.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const SCHEMA = new URL("../../src/steadyhelm/server/schema.json", import.meta.url);
const TARGET = process.argv[2] ?? new URL("../src/api/types.ts", import.meta.url);

const source = readFileSync(SCHEMA);
const schema = JSON.parse(source.toString("utf8"));

function typeOf(part) {
  if (part.$ref) return part.$ref.split("/").at(-1);
  if (part.anyOf) return part.anyOf.map(typeOf).join(" | ");
  if (part.enum) return part.enum.map((value) => JSON.stringify(value)).join(" | ");
  if ("const" in part) return JSON.stringify(part.const);
  switch (part.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return part.prefixItems
        ? `readonly [${part.prefixItems.map(typeOf).join(", ")}]`
        : `readonly ${wrap(typeOf(part.items ?? {}))}[]`;
    case "object":
      return recordOf(part);
    default:
      return "unknown";
  }
}

const wrap = (text) => (/^[A-Za-z]\w*$/.test(text) ? text : `(${text})`);

function recordOf(part) {
  const value = part.additionalProperties === undefined ? "unknown" : typeOf(part.additionalProperties);
  const names = part.propertyNames ? typeOf(part.propertyNames) : "string";
  return `Readonly<Record<${names}, ${value}>>`;
}

function comment(text, indent = "") {
  if (!text) return "";
  const lines = text.trim().split("\n").map((line) => line.trim());
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} *${line ? ` ${line}` : ""}\n`).join("")}${indent} */\n`;
}

function declare(name, part) {
  const head = comment(part.description);
  if (part.type !== "object" || !part.properties) {
    const body = part.type === "object" && !part.properties ? "Readonly<Record<string, never>>" : typeOf(part);
    return `${head}export type ${name} = ${body};\n`;
  }
  const required = new Set(part.required ?? []);
  const fields = Object.entries(part.properties).map(
    ([field, type]) =>
      `${comment(type.description, "  ")}  readonly ${field}${required.has(field) ? "" : "?"}: ${typeOf(type)};\n`,
  );
  return `${head}export interface ${name} {\n${fields.join("")}}\n`;
}

const digest = createHash("sha256").update(source).digest("hex");
const parts = Object.entries(schema.$defs).map(([name, part]) => declare(name, part));
writeFileSync(TARGET, `// Generated from the server's schema by \`npm run types\`. Schema: ${digest}\n\n${parts.join("\n")}`);
