package load_test

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"novelgate/internal/bench/load"
)

func TestReadResponse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		status     int
		body       string
		last       bool
	}{
		{
			"created", "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 201, "{}", false,
		},
		{"any case, any space", "HTTP/1.1 200 OK\r\ncontent-LENGTH:\t 3 \r\n\r\nabc", 200, "abc", false},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "", false},
		{"closing", "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 503, "x", true},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, "x", false},
		{
			"larger than the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + strings.Repeat("y", 20), 200,
			strings.Repeat("y", 20), false,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// One byte at a time, and another answer behind: neither may matter.
			r := bufio.NewReader(io.MultiReader(oneByte{strings.NewReader(test.text)},
				strings.NewReader("HTTP/1.1 204 Next\r\nContent-Length: 0\r\n\r\n")))
			status, body, last, err := load.ReadResponse(r, make([]byte, 8))
			if err != nil {
				t.Fatal(err)
			}
			if status != test.status || body != test.body || last != test.last {
				t.Errorf("got %d, %q, %v; want %d, %q, %v", status, body, last, test.status, test.body, test.last)
			}
			if next, _, _, err := load.ReadResponse(r, nil); err != nil || next != 204 {
				t.Errorf("the next answer is %d, %v", next, err)
			}
		})
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) } // a pass-through

func TestReadResponseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 abc\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Le",
	} {
		_, _, _, err := load.ReadResponse(bufio.NewReader(strings.NewReader(text)), nil)
		if err == nil {
			t.Errorf("accepted %q", text)
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%q looks like the end of a connection between two answers: %v", text, err)
		}
	}
	if _, _, _, err := load.ReadResponse(bufio.NewReader(strings.NewReader("")), nil); !errors.Is(err, io.EOF) {
		t.Errorf("the end of a connection gave %v, want EOF", err)
	}
}
