package load

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// origin identifies a comment of a benchmark: the run, the connection and the ordinal there, packed into 64 bits.
type origin uint64

const (
	connectionBits = 12
	ordinalBits    = 36
)

func newOrigin(run uint16, connection, ordinal int) origin {
	return origin(run)<<(connectionBits+ordinalBits) | origin(connection)<<ordinalBits | origin(ordinal) //nolint:gosec // both are small
}

// appendKey appends the idempotency key of a comment: as unlike its neighbours as the event ids of a partner are.
func (o origin) appendKey(b []byte) []byte {
	// The finaliser of SplitMix64 is a bijection, so different origins have different keys.
	z := uint64(o) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	const digits = "0123456789abcdef"
	b = append(b, "comment-"...)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[z>>shift&15])
	}
	return b
}

// Key returns the idempotency key of a comment.
func Key(run uint16, connection, ordinal int) string {
	return string(newOrigin(run, connection, ordinal).appendKey(nil))
}

var (
	titleBegin = []string{
		"The Lantern", "A Winter", "The Cartographer", "Salt and Ash", "The Ninth Gate", "Children", "The Quiet Sword",
		"An Orchard",
	}
	titleEnd = []string{
		"of Ashford", "Without Kings", "at the Edge of Rain", "of the Hollow Sea", "in Exile", "Beyond the Pale Court",
	}
	words = []string{
		"the", "chapter", "was", "slower", "than", "I", "expected", "but", "ending", "made", "up", "for", "it", "author",
		"really", "knows",
		"how", "to", "write", "dialogue", "and", "this", "character", "keeps", "growing", "on", "me", "after", "that",
		"battle", "scene",
		"translation", "feels", "smooth", "again", "thanks", "waiting", "next", "one", "did", "anyone", "else", "notice",
		"hint", "about", "sister",
	}
)

// Title returns the title of one of the novels that comments are about. Each i has its own.
func Title(i int) string {
	return titleBegin[i%len(titleBegin)] + " " + titleEnd[i/len(titleBegin)%len(titleEnd)] + ", Book " + strconv.Itoa(i+1)
}

// Content returns a comment of 250 to 350 characters. The same rng gives the same comments.
func Content(rng *rand.Rand) string {
	size := 250 + rng.IntN(90)
	text := make([]byte, 0, 350)
	for len(text) < size {
		text = append(text, words[rng.IntN(len(words))]...)
		if rng.IntN(9) == 0 {
			text = append(text, '.')
		}
		text = append(text, ' ')
	}
	return string(append(text[:len(text)-1], '!'))
}

// users is how many people write the comments.
const users = 5000

// composer writes requests. Each connection has its own.
type composer struct {
	head     string   // request line and header up to the value of Idempotency-Key
	contents []string // shared; to choose from
	rng      *rand.Rand
	request  []byte
	body     []byte
}

func newComposer(host, apiKey string, contents []string, rng *rand.Rand) *composer {
	return &composer{
		head: "POST /api/integrations/posts HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + apiKey +
			"\r\nContent-Type: application/json\r\nIdempotency-Key: ",
		contents: contents, rng: rng,
	}
}

// compose returns the request that delivers a comment, valid until the next call. parent is only used for a reply.
func (c *composer) compose(own origin, title string, reply bool, parent origin, now time.Time) []byte {
	user := c.rng.IntN(users)
	b := append(c.body[:0], `{"uuid":"user-`...)
	b = strconv.AppendInt(b, int64(user), 10)
	b = append(b, `","username":"Reader `...)
	b = strconv.AppendInt(b, int64(user), 10)
	b = append(b, `","novel":"`...)
	b = append(b, title...)
	b = append(b, `","content":"`...)
	b = append(b, c.contents[c.rng.IntN(len(c.contents))]...)
	b = append(b, `","timestamp":"`...)
	b = now.UTC().Add(-time.Duration(c.rng.IntN(3600))*time.Second).AppendFormat(b, time.RFC3339)
	b = append(b, '"')
	if chapter := c.rng.IntN(400); chapter < 300 { // the others are about the novel as a whole
		b = append(b, `,"chapterNumber":`...)
		b = strconv.AppendInt(b, int64(chapter), 10)
	}
	if reply {
		b = append(b, `,"parent_uuid":"`...)
		b = append(parent.appendKey(b), '"')
	}
	c.body = append(b, '}')

	r := append(c.request[:0], c.head...)
	r = own.appendKey(r)
	r = append(r, "\r\nContent-Length: "...)
	r = strconv.AppendInt(r, int64(len(c.body)), 10)
	r = append(r, "\r\n\r\n"...)
	c.request = append(r, c.body...)
	return c.request
}
