package main

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"novelgate/events/eventlog"
)

// systemd is the part that tells systemd that the service is ready and, in the end, that it stops (sd_notify). In
// between it feeds the watchdog while /healthz at the address for operators answers, whose connections no client can
// use up. A database that is away is no reason to start again. Not started by systemd, it does nothing.
func (s *shared) systemd(ops net.Addr) part {
	return part{"systemd", func(ctx context.Context) error {
		s.tell(ctx, daemon.SdNotifyReady)
		limit, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			return err
		}
		if limit == 0 {
			<-ctx.Done()
		}
		client := selfClient(limit / 3)
		for eventlog.Sleep(ctx, max(limit/3, time.Millisecond)) {
			answer, err := client.Get("http://" + ops.String() + "/healthz") //nolint:noctx // the client has a time-out
			if err != nil {
				s.logger.WarnContext(ctx, "the service does not answer itself", slog.Any("error", err))
				continue
			}
			_ = answer.Body.Close()
			s.tell(ctx, daemon.SdNotifyWatchdog)
		}
		s.tell(ctx, daemon.SdNotifyStopping)
		return nil
	}}
}

func (s *shared) tell(ctx context.Context, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.logger.WarnContext(ctx, "systemd not told", slog.String("state", state), slog.Any("error", err))
	}
}
