package stack

import (
	"context"
	"time"
)

// pollEvery is how often conditions without a notification are looked at.
const pollEvery = 10 * time.Millisecond

// until calls done at once and then in intervals until it reports true or an
// error, or ctx ends.
func until(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
