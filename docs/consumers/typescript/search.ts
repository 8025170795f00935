// Maintains a table for searching comments (docs/events.md); its schema is in ../table.go. The program may be killed at
// any point. It ends at the first error: then start it again.
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import pg from "pg";
import { v5 } from "uuid";

type Event = { type: string; source: string; streamid: string; data: { novelId: string } };
type Comment = { uuid: string; username: string; content: string };

const { NATS = "", STREAM = "", DATABASE_URL = "" } = process.env;
const db = new pg.Client(DATABASE_URL);
await db.connect();
const nats = await connect({ servers: NATS.split(","), maxReconnectAttempts: -1, inboxPrefix: "_INBOX_search" });
const streams = (await jetstreamManager(nats, { checkAPI: false })).streams;

// authorId returns the id under which author.erased.v1 names the author of a comment.
function authorId(event: Event, comment: Comment): string {
  const integration = event.source.split("/")[1] ?? ""; // integrations/{id}/posts
  const name = Buffer.concat([Buffer.from(integration.replaceAll("-", ""), "hex"), Buffer.from(comment.uuid)]);
  return v5(name, "0d3b6c1e-5c5f-5a0e-9a53-7c6d1f4b8e04");
}

// personalPart returns the personal part of a comment, undefined if it was erased. The personal part is stored before
// the event, so a missing message means that it was erased.
async function personalPart(sequence: number): Promise<Comment | undefined> {
  const found = await streams.getMessage(`${STREAM}-personal`, { seq: sequence });
  return found && found.data.length > 0 ? found.json<Comment>() : undefined;
}

// apply applies an event and stores its sequence, in one transaction. An event that is delivered again changes nothing.
async function apply(sequence: number, event: Event): Promise<void> {
  const comment = event.type === "post.imported.v1" ? await personalPart(sequence) : undefined;
  await db.query("BEGIN");
  const moved = await db.query("UPDATE search_position SET sequence = $1 WHERE sequence < $1", [sequence]);
  if (moved.rowCount === 1) {
    if (comment) {
      await db.query(
        `INSERT INTO search_comments (post_id, novel_id, author_id, username, content) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (post_id) DO NOTHING`,
        [event.streamid, event.data.novelId, authorId(event, comment), comment.username, comment.content],
      );
    } else if (event.type === "post.hidden.v1" || event.type === "post.restored.v1") {
      await db.query("UPDATE search_comments SET hidden = $2 WHERE post_id = $1",
        [event.streamid, event.type === "post.hidden.v1"]);
    } else if (event.type.startsWith("author.erased.")) {
      await db.query("DELETE FROM search_comments WHERE author_id = $1", [event.streamid]);
    }
  }
  await db.query("COMMIT");
}

const { rows } = await db.query<{ sequence: string }>("SELECT sequence FROM search_position");
const consumer = await jetstream(nats).consumers.get(STREAM, {
  deliver_policy: DeliverPolicy.StartSequence,
  opt_start_seq: Number(rows[0]?.sequence) + 1,
  filter_subjects: ["novelgate.v1.*.post.>", "novelgate.v1.*.author.erased.>"],
});
for await (const message of await consumer.consume()) {
  await apply(message.seq, message.json<Event>());
}
throw new Error("the consumer has ended");
