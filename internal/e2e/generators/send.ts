import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const api = createClient<paths>({
  baseUrl: process.env.NOVELGATE_URL ?? "",
  headers: { Authorization: `Bearer ${process.env.NOVELGATE_API_KEY}` },
});

type Answer<T> = { data?: T; error?: components["schemas"]["Problem"]; response: Response };

// send repeats a command, with the same Idempotency-Key, until its answer is final. After ten minutes it fails: keep the
// command, and send it again later.
async function send<T>(attempt: (signal: AbortSignal) => Promise<Answer<T>>): Promise<T> {
  const end = Date.now() + 600_000;
  for (let pause = 200; ; pause = Math.min(2 * pause, 30_000)) {
    let wait = pause * (0.5 + Math.random() / 2);
    try {
      const { data, error, response } = await attempt(AbortSignal.timeout(20_000));
      if (data) return data;
      if (![408, 429, 502, 503, 504].includes(response.status) || Date.now() > end) {
        throw new Error(`${response.status} ${error?.code}`, { cause: error });
      }
      wait += 1000 * (Number(response.headers.get("Retry-After")) || 0);
    } catch (err) {
      // Without an answer the command may be stored or not.
      const unanswered = err instanceof TypeError || (err as Error).name === "TimeoutError";
      if (!unanswered || Date.now() > end) throw err;
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

const post = await send((signal) => api.POST("/api/integrations/posts", {
  params: { header: { "Idempotency-Key": "evt-103" } },
  body: {
    uuid: "member-12", username: "Zoë", novel: "The Clockmaker's Apprentice", content: "Wait for it.", parent_uuid: "evt-100",
  },
  signal,
}));
console.log(post.created, post.postId, post.url);
