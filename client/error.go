package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is an answer of the service that refuses a request.
type Error struct {
	Code      string  `json:"code"`      // for programs, such as novel_rejected; "" if a proxy answered
	Status    int     `json:"status"`    // HTTP status
	Detail    string  `json:"detail"`    // for people
	Fields    []Field `json:"errors"`    // what is invalid
	Retryable bool    `json:"retryable"` // the same request can succeed later
	RequestID string  `json:"requestId"` // quote it when you contact support

	retryAfter time.Duration
}

// Field is an invalid member of a body, or an invalid parameter.
type Field struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string {
	text := "novelgate: " + strconv.Itoa(e.Status) + " " + e.Code
	if e.Code == "" {
		text += http.StatusText(e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.RequestID != "" {
		text += fmt.Sprintf(" (request %s)", e.RequestID)
	}
	return text
}

// newError returns the error in an answer.
func newError(response *http.Response, body []byte) *Error {
	e := &Error{
		Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id"),
		retryAfter: retryAfter(response.Header.Get("Retry-After")),
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") &&
		json.Unmarshal(body, e) == nil {
		return e
	}
	switch response.StatusCode { // a proxy's status
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Retryable = true
	}
	return e
}

// retryAfter returns the time to wait for which a Retry-After header asks, in seconds or with a date; 0 without any.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}
