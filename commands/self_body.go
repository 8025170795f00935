package commands

import (
	"net/http"
	"strings"

	"novelgate/commands/problem"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
)

// parseOperation accepts the name of one of the two operations.
func parseOperation(name string) (ratelimit.Operation, bool) {
	operation := ratelimit.Operation(name)
	return operation, operation == ratelimit.Novels || operation == ratelimit.Posts
}

// operationWanted is what is wrong with any other name.
const operationWanted = "must be novels or posts"

// keySubject is what the messages of request.ParseIdempotencyKey begin with.
const keySubject = "The Idempotency-Key header "

// parseKey reads an idempotency key that comes elsewhere than in its header. wrong says what is the matter with it, as
// a sentence without its subject and full stop; it is empty for a good key.
func parseKey(sent string) (key, wrong string) {
	key, err := request.ParseIdempotencyKey(http.Header{request.IdempotencyKeyHeader: {sent}})
	if err != nil {
		return "", strings.TrimSuffix(strings.TrimPrefix(problem.From(err).Detail, keySubject), ".")
	}
	return key, ""
}
