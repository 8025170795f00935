import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";
import type { components } from "./api.js";

const webhook = new Webhook(process.env.SECRET ?? ""); // whsec_…
const known = new Set<string>(); // keep it in your database

createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  let change: components["schemas"]["Change"];
  try {
    change = webhook.verify(Buffer.concat(parts), request.headers as Record<string, string>) as typeof change;
  } catch {
    response.writeHead(401).end(); // not from the service
    return;
  }
  if (!known.has(change.id)) {
    known.add(change.id);
    console.log(change.type, change.data);
  }
  response.writeHead(204).end();
}).listen(Number(process.env.PORT), "127.0.0.1");
