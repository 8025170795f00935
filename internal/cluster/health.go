package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

// Member is a PostgreSQL, as Patroni's GET /cluster shows it.
type Member struct {
	Name  string `json:"name"`
	Role  string `json:"role"`  // leader, sync_standby or replica
	State string `json:"state"` // running, and streaming in newer versions of Patroni, when all is well
}

// Leader is the role of the primary in Member.
const Leader = "leader"

// Members asks the Patroni of a machine.
func (c *Cluster) Members(ctx context.Context, machine string) ([]Member, error) {
	_, body, err := get(ctx, "http://"+c.Address(machine)+":8008/cluster")
	var answer struct {
		Members []Member `json:"members"`
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("ask Patroni on %s: %w", machine, err)
	}
	return answer.Members, nil
}

// Role returns a machine with a role; "" without one.
func Role(members []Member, role string) string {
	for _, m := range members {
		if m.Role == role && (m.State == "running" || m.State == "streaming") {
			return m.Name
		}
	}
	return ""
}

// Healthy returns nil if every Patroni sees a primary and two standbys, one of them synchronous, and all services
// answer. Otherwise it says what is missing.
func (c *Cluster) Healthy(ctx context.Context) error {
	for _, machine := range Databases {
		members, err := c.Members(ctx, machine)
		if err != nil {
			return err
		}
		if Role(members, Leader) == "" || Role(members, "sync_standby") == "" || Role(members, "replica") == "" {
			return fmt.Errorf("%s sees the members %+v", machine, members)
		}
	}
	for _, url := range []string{
		"http://" + c.Address(R1) + ":8081/readyz", "http://" + c.Address(R2) + ":8081/readyz",
		"http://" + c.Address(R3) + ":8080/api/novels", c.URL() + "/api/novels", c.URL() + "/openapi.yaml",
	} {
		if status, body, err := get(ctx, url); err != nil || status != http.StatusOK {
			return fmt.Errorf("%s: %d %.200s %w", url, status, body, err)
		}
	}
	return nil
}

// awaitHealthy polls until the cluster is healthy. It waits as long as ctx allows, because a busy machine is slow.
func (c *Cluster) awaitHealthy(ctx context.Context) error {
	for {
		err := c.Healthy(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster has not become healthy: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get gets a URL over a connection of its own.
func get(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("send request: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read answer: %w", err)
	}
	return response.StatusCode, body, nil
}
