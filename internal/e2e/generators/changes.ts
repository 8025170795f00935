import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const api = createClient<paths>({
  baseUrl: process.env.NOVELGATE_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.NOVELGATE_API_KEY}` },
});

let cursor = process.env.CURSOR; // of the last change that you have handled; undefined: from the beginning
for (let more = true; more; ) {
  const { data, error } = await api.GET("/api/integrations/changes", { params: { query: { cursor } } });
  if (data === undefined || typeof data === "string") throw new Error(error?.code); // a live stream is a string
  for (const change of data.items) console.log(change.type, change.data);
  cursor = data.cursor;
  more = data.nextCursor !== null;
}
console.log(cursor);
