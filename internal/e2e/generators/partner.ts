// Sends commands with openapi-fetch and the types that openapi-typescript generates. Usage: node partner.js URL KEY TITLE.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [baseUrl = "", key = "", title = ""] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

function want(ok: boolean | undefined, what: string, got: unknown): asserts ok {
  if (!ok) throw new Error(`${what}: ${JSON.stringify(got)}`);
}

// A novel, and a comment twice.
const novel = await client.POST("/api/integrations/novels", {
  params: { header: { "Idempotency-Key": "novel-1" } },
  body: { novel: title, author: "Ida Verne", genres: ["Fantasy"], readingStatus: "ongoing" },
});
want(novel.response.status === 201 && novel.data?.created && novel.data.slug !== "", "upsert", novel);

const body: components["schemas"]["PostImport"] = {
  uuid: "member-1", username: "Marlow", novel: title, content: "A comment.", chapterNumber: 12.5,
};
const params = { header: { "Idempotency-Key": "evt/1" } };
const first = await client.POST("/api/integrations/posts", { params, body });
const again = await client.POST("/api/integrations/posts", { params, body });
want(first.response.status === 201 && first.data?.created && first.data.parentPostId === null, "comment", first);
want(again.data?.created === false && again.data.postId === first.data.postId, "replay", again);
want(again.response.headers.get("Idempotent-Replayed") === "true", "header", [...again.response.headers]);

// A comment that the service refuses.
const bad = await client.POST("/api/integrations/posts", {
  params: { header: { "Idempotency-Key": "evt/2" } },
  body: { ...body, content: "" },
});
want(bad.error?.code === "invalid_request" && bad.error.errors?.[0]?.field === "content", "mistake", bad);

// What the service has on record.
const shown = await client.GET("/api/integrations/deliveries/{idempotencyKey}", {
  params: { path: { idempotencyKey: "evt/1" }, query: { operation: "posts" } },
});
want(shown.data?.operation === "posts" && shown.data.postState === "visible", "delivery", shown);
const found = await client.POST("/api/integrations/deliveries/reconcile", {
  body: { operation: "posts", idempotencyKeys: ["evt/1", "evt/2"] },
});
want(found.data?.present === 1 && found.data.missing[0] === "evt/2", "reconciliation", found);
const me = await client.GET("/api/integrations/me");
want(me.data && me.data.limits.posts.perMinute > 0 && me.data.limits.novelUpdates === null, "integration", me);
