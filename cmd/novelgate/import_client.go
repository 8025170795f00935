package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"novelgate/events/eventlog"
	"novelgate/internal/httpkit"
)

// importClient sends requests about imports. It repeats a request while a repetition may succeed.
type importClient struct {
	base   string // URL of the service
	key    string // API key
	path   string // of the import, below that of all imports; "" before it is opened
	now    clock
	stderr io.Writer
	http   http.Client
}

const (
	retryTimeout   = 10 * time.Minute // after which a request is not repeated
	retryPause     = time.Second      // minimum time between repetitions
	requestTimeout = 2 * time.Minute  // of one request
)

// refusedError is an error response of the service.
type refusedError struct {
	Status         int
	Detail         string
	RequestID      string
	Retryable      bool
	ExpectedOffset *int64
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s (%d, request %s)", e.Detail, e.Status, e.RequestID)
}

// put sends a part and returns the offset of the next one.
func (c *importClient) put(ctx context.Context, offset int64, body []byte) (next int64, err error) {
	header, err := c.do(ctx, http.MethodPut, "/lines?offset="+strconv.FormatInt(offset, 10), body,
		http.Header{"Content-Type": {"application/x-ndjson"}, "Content-Encoding": {"zstd"}}, nil)
	if refused, ok := errors.AsType[*refusedError](err); ok && refused.ExpectedOffset != nil {
		return *refused.ExpectedOffset, nil
	}
	if err != nil {
		return 0, fmt.Errorf("upload lines: %w", setBack(err))
	}
	return strconv.ParseInt(header.Get("Next-Offset"), 10, 64)
}

// pages calls each with every page of a list.
func (c *importClient) pages(ctx context.Context, query string, each func(page []byte) error) error {
	for after := ""; ; {
		var page []byte
		header, err := c.do(ctx, http.MethodGet, query+after, nil, nil, &page)
		if err != nil {
			return err
		}
		if err := each(page); err != nil {
			return err
		}
		if header.Get("Next-After") == "" {
			return nil
		}
		after = "&after=" + url.QueryEscape(header.Get("Next-After"))
	}
}

// do sends a request, and repeats it while a repetition may succeed and retryTimeout has not passed. into gets the body
// of the response: a *[]byte gets its bytes, any other pointer the decoded JSON. nil ignores the body.
func (c *importClient) do(
	ctx context.Context, method, path string, body []byte, header http.Header, into any,
) (http.Header, error) {
	begun, warned := c.now(), false
	for {
		answer, pause, err := c.try(ctx, method, path, body, header, into)
		if pause == 0 || ctx.Err() != nil || c.now().Sub(begun) > retryTimeout {
			return answer, err
		}
		if !warned {
			fmt.Fprintf(c.stderr, "waiting for the service: %v\n", err)
			warned = true
		}
		eventlog.Sleep(ctx, pause)
	}
}

// try sends a request once. If a repetition may succeed, pause is the time to wait before it; otherwise pause is 0.
func (c *importClient) try(
	ctx context.Context, method, path string, body []byte, header http.Header, into any,
) (_ http.Header, pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	address := c.base + "/api/integrations/imports" + c.path + path
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, fmt.Errorf("make a request: %w", err)
	}
	maps.Copy(request.Header, header)
	request.Header.Set("Authorization", "Bearer "+c.key)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, retryPause, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read from
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, retryPause, fmt.Errorf("read the answer: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		refused := &refusedError{Status: response.StatusCode, Detail: http.StatusText(response.StatusCode)}
		// A proxy may answer in another form.
		_ = json.Unmarshal(content, refused, json.MatchCaseInsensitiveNames(true))
		refused.Detail = httpkit.Clip(refused.Detail)
		if refused.Retryable || response.StatusCode >= http.StatusInternalServerError {
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 without one
			pause = max(retryPause, time.Duration(seconds)*time.Second)
		}
		return response.Header, pause, refused
	}
	switch into := into.(type) {
	case nil:
	case *[]byte:
		*into = content
	default:
		if err := json.Unmarshal(content, into); err != nil {
			return nil, 0, fmt.Errorf("decode the answer: %w", err)
		}
	}
	return response.Header, 0, nil
}
