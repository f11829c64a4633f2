package gateway

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/gatehouse-mcp/gatehouse/gateway/lifecycle"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// supervisor tells systemd about the process (sd_notify(3)), if that has started it and wants to know.
type supervisor struct{ log *slog.Logger }

// tell sends a state.
func (s supervisor) tell(state ...string) {
	if _, err := daemon.SdNotify(false, strings.Join(state, "\n")); err != nil {
		s.log.Debug("systemd does not take what it is to know", "state", state[0], "error", err)
	}
}

// serving tells that the process serves, and from then on that it is well, until the result is called.
// well returns once all parts have answered.
func (s supervisor) serving(well func()) (done func()) {
	s.tell(daemon.SdNotifyReady)
	stop := lifecycle.Run(s.watch(well))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), lifecycle.StepGrace)
		defer cancel()
		if err := stop(ctx); err != nil {
			s.log.Warn("the watchdog of systemd", failure.StopUnclean.Attr(), "error", err)
		}
	}
}

// reloading tells that a reload runs, until the result is called.
func (s supervisor) reloading() (done func()) {
	s.tell(daemon.SdNotifyReloading, daemon.SdNotifyMonotonicUsec())
	return func() { s.tell(daemon.SdNotifyReady) }
}

// watch tells that the process is well, twice as often as systemd asks for (WatchdogSec), until its
// context ends.
func (s supervisor) watch(well func()) func(context.Context) error {
	return func(ctx context.Context) error {
		every, err := daemon.SdWatchdogEnabled(false)
		if err != nil || every == 0 {
			return err
		}
		ticker := time.NewTicker(every / 2)
		defer ticker.Stop()
		for {
			well()
			s.tell(daemon.SdNotifyWatchdog)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
