// Package client sends novels and comments of a partner platform, and what becomes of them, to a Novelgate service.
//
// The client retries a request with the same Idempotency-Key until it gets a final answer or the context is done. It
// retries after network errors (except a certificate that it does not trust), after attempts without an answer, and
// after retryable answers (408, 429 and 503; also 502 and 504 of a proxy). So give every call a context with a
// deadline.
//
// An error is an *Error if the service refused the last attempt. If its Retryable is false, do not send the request
// again, except that a change of a comment that is not on record (not_found) can succeed after Posts.Create. One that
// is gone was withdrawn or erased. After any other error the command may have been executed, because an answer can get
// lost. To find out, send the command again with the same key, which is always safe, or call Deliveries.Missing.
//
// The package uses only the standard library of Go 1.26. To use it, copy its files without the tests into your module.
package client
