package httpkit

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
)

// SendJSON answers a request of one client with a value as JSON. On an error it has sent nothing.
func SendJSON(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Cache-Control", "no-store") // for one client only, and soon outdated
	return SendStorable(w, status, body)
}

// SendStorable is SendJSON without a Cache-Control header. On an error it has sent nothing.
func SendStorable(w http.ResponseWriter, status int, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded) // an error means that the client closed the connection
	return nil
}
