// The API reference, from the server's own description.

import { request } from "./api.js";
import { element } from "./build.js";

function typeName(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? typeName(schema.items) : "anything"}`;
  return schema.type || "anything";
}

/** Return the parts of a description: names between backticks as code. */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));

function call(path, method, { description, parameters = [], requestBody, responses }) {
  const json = (part) => typeName(part?.content?.["application/json"]?.schema);
  const takes = json(requestBody);
  const gives = json(responses["200"]);
  const given = parameters.map((each) => `${each.name}: ${typeName(each.schema)}`);
  const facts = [...given, takes && `takes ${takes}`, gives && `returns ${gives}`];
  return element("section", {},
    element("h2", {}, element("code", {}, `${method.toUpperCase()} ${path}`)),
    element("p", {}, prose(description)),
    element("p", { class: "soft" }, facts.filter(Boolean).join(", ")));
}

function described(name, { description = "", properties = {} }) {
  const fields = Object.entries(properties).map(([field, schema]) =>
    element("li", {}, element("code", {}, field), ` ${typeName(schema)}`));
  return element("details", {}, element("summary", {}, name), element("p", {}, prose(description)), element("ul", {}, fields));
}

export async function referencePage() {
  const api = await request("/openapi.json");
  const calls = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, each]) => call(path, method, each)));
  return element("section", { class: "reference" },
    element("h1", {}, "API reference"),
    element("p", {}, "All data on these pages comes from the calls below, as JSON. ",
      element("a", { href: "openapi.json", target: "_blank", rel: "noopener" }, "openapi.json"), " describes them for tools."),
    calls,
    element("h2", {}, "Types"),
    Object.entries(api.components.schemas).map(([name, schema]) => described(name, schema)));
}
