package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/readapi"
)

const (
	// readTimeout limits the arrival of a request.
	readTimeout = 15 * time.Second
	// sendTimeout is the time to send an answer. Readers have less time (web.Readers), and streams set their own limit
	// for each part.
	sendTimeout = 15 * time.Second
	opsTimeout  = 60 * time.Second // for a whole request: a profile takes 30 s
	// maxHeaderBytes limits the header of a request, together with the 4 KB that net/http adds. 8 KB hold the longest
	// Idempotency-Key (255 bytes), the fields of tracing and of proxies, and 4 KB of cookies. Most proxies refuse a line
	// of more than 8 KB.
	maxHeaderBytes = 4 << 10
	// drainTimeout is how long a shutdown waits for running requests.
	drainTimeout = 20 * time.Second
	// lastRequestsTime is how long requests on open connections are accepted after the listener is closed.
	lastRequestsTime = 200 * time.Millisecond
)

// newServer returns an HTTP server with a limit on headers, and time-outs against slow clients. Browsers must not guess
// the type of any answer.
func newServer(handler http.Handler, logger *slog.Logger, writeTimeout time.Duration) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Content-Type-Options", "nosniff")
			handler.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		// net/http's own answer to OPTIONS * waits for a body.
		DisableGeneralOptionsHandler: true,
	}
}

// requests is the part that serves partners, staff, auditors and readers. In the end it completes accepted requests.
func (s *shared) requests(listener net.Listener, routes http.Handler, sandbox bool) part {
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		if sandbox {
			w.Header().Set("X-Robots-Tag", "noindex")
		}
		routes.ServeHTTP(w, r)
	}), s.logger, readTimeout+s.kit.Timeout+sendTimeout) // net/http counts from the end of the header
	open := registered(s.metrics, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_connections", Help: "Open connections of partners, staff, auditors and readers.",
	}))
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Inc()
		case http.StateClosed, http.StateHijacked:
			open.Dec()
		}
	}
	return part{"requests", func(ctx context.Context) error {
		drained := make(chan struct{})
		context.AfterFunc(ctx, func() {
			defer close(drained)
			signal.Reset(os.Interrupt) // another Ctrl-C ends the process at once
			s.logger.InfoContext(ctx, "shutting down: completing accepted requests")
			s.draining.Store(true)
			// After Shutdown begins, net/http drops newly read requests without a response. So first close the listener, and
			// let requests on open connections get responses that close the connection.
			listener.Close() //nolint:errcheck // the server closes it again
			time.Sleep(lastRequestsTime)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer cancel()
			if err := server.Shutdown(ctx); err != nil {
				s.logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
				server.Close() //nolint:errcheck // drainTimeout has passed
			}
		})
		if err := server.Serve(listener); !isClosed(err) {
			return err
		}
		<-drained
		return nil
	}}
}

// operations is the part that serves operators: metrics, health, profiles.
func (s *shared) operations(listener net.Listener, health *readapi.Health) part {
	router := mux.NewRouter()
	withProjections := *health
	withProjections.Projections = func(ctx context.Context) (any, error) { return projections.List(ctx, s.pools.General) }
	register(router, append(s.opsAPIs, &withProjections)...)
	router.Handle("/metrics",
		promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{Registry: s.metrics, EnableOpenMetrics: true}))
	// Without cmdline: a command line may have the password of the database.
	router.HandleFunc("/debug/pprof/profile", pprof.Profile)
	router.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	router.HandleFunc("/debug/pprof/trace", pprof.Trace)
	router.PathPrefix("/debug/pprof/").HandlerFunc(pprof.Index)
	server := newServer((&web.Kit{Logger: s.logger}).Handler(router, nil), s.logger, opsTimeout)
	return part{"operations", func(ctx context.Context) error {
		context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // nobody waits for an answer any more
		if err := server.Serve(listener); !isClosed(err) {
			return err
		}
		return nil
	}}
}

// isClosed reports whether a server has stopped because it was told to.
func isClosed(err error) bool {
	return errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed)
}

// newRegistry returns a registry with the metrics of the process. Parts register theirs.
func newRegistry() *prometheus.Registry {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_build_info", Help: "Version, commit and Go version of this process; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": thisCommit(), "go": runtime.Version()},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// sendBuffer is what the kernel holds of an answer, in bytes. Linux takes twice that in memory.
const sendBuffer = 64 << 10

func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	// Connections inherit the buffer. With the default of the kernel, which grows to megabytes, clients that do not read
	// their answers would take gigabytes of the kernel's memory.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlErr := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, sendBuffer)
		})
		return errors.Join(err, controlErr)
	}}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return listener, nil
}

// publicURL returns the prefix of the URLs in responses: flag, otherwise the address of the listener.
func publicURL(flag string, listening net.Addr) (*url.URL, error) {
	if flag == "" {
		address := listening.String()
		if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			// The unspecified address does not work in a link.
			address = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
		}
		return &url.URL{Scheme: "http", Host: address}, nil
	}
	u, err := parseHTTP("--public-url", strings.TrimRight(flag, "/"))
	switch {
	case err != nil:
		return nil, err
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("--public-url: %q has a query or a fragment", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("--public-url: %q has a user name, which would be in every URL", u.Redacted())
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }):
		// URL.String would percent-encode the name, which only browsers understand.
		return nil, fmt.Errorf("--public-url: write the host name of %q in its ASCII form, xn--…", u.Redacted())
	}
	return u, nil
}

// part is a named piece of a service. It runs until its context ends, or fails.
type part struct {
	name string
	run  func(context.Context) error
}

// always is the run function of a part that does not fail.
func always(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error { run(ctx); return nil }
}

// runParts starts parts in their order. When ctx ends or a part fails, it stops them in reverse, each when all after it
// have ended: a part may use those before it until its own end. The error names the part that failed first.
func runParts(ctx context.Context, parts []part) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stops []func() error
	for _, p := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ended := make(chan error, 1)
		go func() {
			err := p.run(partCtx)
			if errors.Is(err, context.Canceled) && partCtx.Err() != nil {
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
				fail(err)
			}
			ended <- err
		}()
		stops = append(stops, func() error { cancel(); return <-ended })
	}
	<-ctx.Done()
	var failed error
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		failed = cause
	}
	for _, stop := range slices.Backward(stops) {
		if err := stop(); failed == nil {
			failed = err
		}
	}
	return failed
}

// registered registers the metrics of a part.
func registered[C prometheus.Collector](metrics *prometheus.Registry, c C) C {
	metrics.MustRegister(c)
	return c
}
