package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxBody bounds the body of an answer, in bytes.
const maxBody = 64 << 10

var errResponse = errors.New("not an HTTP/1.1 answer that this client understands")

// response is one answer. Its body is only valid until the next one is read.
type response struct {
	status int
	body   []byte
	last   bool // the server closes the connection
}

// readResponse reads an answer with a Content-Length (RFC 9112). buffer is used for the body if it is large enough.
func readResponse(r *bufio.Reader, buffer []byte) (response, error) {
	line, err := readLine(r)
	if err != nil {
		return response{}, err
	}
	// HTTP/1.1 201 Created
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) > 12 && line[12] != ' ' {
		return response{}, fmt.Errorf("%w: status line %q", errResponse, line)
	}
	status, err := strconv.ParseUint(string(line[9:12]), 10, 16)
	if err != nil {
		return response{}, fmt.Errorf("%w: status line %q", errResponse, line)
	}
	answer := response{status: int(status)}
	length := -1
	for {
		line, err := readLine(r)
		if err != nil {
			return response{}, noEOF(err)
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.Trim(value, " \t")
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.ParseUint(string(value), 10, 31)
			if err != nil || n > maxBody {
				return response{}, fmt.Errorf("%w: Content-Length %q", errResponse, value)
			}
			length = int(n)
		case bytes.EqualFold(name, []byte("Connection")):
			answer.last = bytes.EqualFold(value, []byte("close"))
		}
	}
	if length < 0 {
		return response{}, fmt.Errorf("%w: no Content-Length", errResponse)
	}
	if length > cap(buffer) {
		buffer = make([]byte, length)
	}
	answer.body = buffer[:length]
	if _, err := io.ReadFull(r, answer.body); err != nil {
		return response{}, noEOF(fmt.Errorf("read body: %w", err))
	}
	return answer, nil
}

// readLine returns the next line without its end. It is only valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// noEOF keeps an answer that breaks off from looking like a connection that ended between two answers.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the answer breaks off: %w", io.ErrUnexpectedEOF)
	}
	return err
}
