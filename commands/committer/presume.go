package committer

import "errors"

// doubtfulBatches is how many batches of a lane are read carefully after one that held a retry: partners retry in
// bursts, after an outage of theirs or ours.
const doubtfulBatches = 64

// doubt says whether a lane may presume that its comments are first deliveries. Then their keys are not looked up: the
// append itself finds out, because a key enters the log once (UNIQUE (event_id, event_source), and the stream of a
// comment as well). That spares the most expensive read of a batch, and costs one that holds a retry its first attempt.
// See docs/decisions/0010.
type doubt struct {
	batches int  // that will be read carefully
	never   bool // tests presume each time
}

// presume reports whether the next batch may be presumed new.
func (d *doubt) presume() bool {
	if d.batches == 0 {
		return true
	}
	d.batches--
	return false
}

// raise makes the next batches be read carefully.
func (d *doubt) raise() {
	if !d.never {
		d.batches = doubtfulBatches
	}
}

// presumes reports whether an attempt takes a job for a first delivery without looking.
func (st *state) presumes(j *job) bool { return st.presumed && j.isComment() }

// errPresumption ends an attempt that would do something about a comment before, or without, its key entering the log:
// refuse it, or ask the limiter whether a novel may be created for it. Whether the key is on record has to be looked up
// for that.
var errPresumption = errors.New("a comment that was presumed new has to be looked up")

// checkPresumption fails with errPresumption when a presumption would stay untested.
func (st *state) checkPresumption(jobs []*job) error {
	for _, j := range jobs {
		if st.presumes(j) && st.first[j.ref] == nil {
			return errPresumption
		}
	}
	return nil
}

// retried reports whether any of the jobs is on record.
func (st *state) retried(jobs []*job) bool {
	for _, j := range jobs {
		if st.used[j.ref] != nil {
			return true
		}
	}
	return false
}
