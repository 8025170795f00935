// node validate.mjs SCHEMA FILE…: validates XML files against an XML Schema (.xsd) or a RELAX NG schema (.rng).
import { readFile } from "node:fs/promises";
import { validateXML } from "xmllint-wasm";

const [schema, ...files] = process.argv.slice(2);
const read = async (name) => ({ fileName: name.replaceAll("/", "_"), contents: await readFile(name, "utf8") });
const result = await validateXML({
  xml: await Promise.all(files.map(read)),
  schema: [await read(schema)],
  extension: schema.endsWith(".rng") ? "relaxng" : "schema",
});
if (!result.valid) {
  console.error(result.rawOutput);
  process.exit(1);
}
