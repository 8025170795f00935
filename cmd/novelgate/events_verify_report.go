package main

import (
	"fmt"

	"novelgate/events/ledger/verify"
)

// printReport prints what verifying has found, for people.
func printReport(in *invocation, r verification) {
	checked := fmt.Sprintf("%d events against their entries", r.Events)
	switch {
	case r.EntriesOnly:
		checked = "no events, there are entries only"
	case r.Erased > 0:
		checked += fmt.Sprintf(", %d of them erased", r.Erased)
	}
	rows := [][]any{
		{"checkpoint", fmt.Sprintf("%d entries of %s", r.Size, r.Origin)},
		{"root", r.Root},
	}
	for _, key := range r.Keys {
		rows = append(rows, []any{"signed by", key})
	}
	rows = append(rows,
		[]any{"hashed", fmt.Sprintf("%d entries, from log index %d on", r.Entries, r.FirstLogIndex)},
		[]any{"compared", checked},
		[]any{"streams", fmt.Sprintf("%d, their versions without gaps unless said below", r.Streams)})
	for _, kept := range r.Kept {
		outcome := "could NOT be compared"
		if kept.Agrees != nil {
			outcome = "does NOT agree"
			if *kept.Agrees {
				outcome = "agrees"
			}
		}
		rows = append(rows, []any{"kept", fmt.Sprintf("%s, %d entries: %s", kept.Name, kept.Size, outcome)})
	}
	rows = append(rows,
		[]any{"took", fmt.Sprintf("%.1f s, %.0f events/s", r.Seconds, float64(r.Entries)/max(r.Seconds, 0.001))})
	for i := range r.Projections {
		rows = append(rows, []any{"replayed", replayed(&r.Projections[i])})
	}
	rows = append(rows, notVouchedFor(r.Report)...)
	for i := range r.Faults {
		rows = append(rows, []any{"WRONG", r.Faults[i].String()})
	}
	if more := r.FaultCount - int64(len(r.Faults)); more > 0 {
		rows = append(rows, []any{"WRONG", fmt.Sprintf("%d faults in all", r.FaultCount)})
	}
	in.table([]any{"VERIFY", verdict(r.Report)}, rows)
}

// verdict is the report in a few words.
func verdict(r *verify.Report) string {
	text := "everything agrees"
	switch {
	case !r.OK:
		return "the history DOES NOT VERIFY"
	case r.Unverified > 0:
		text = fmt.Sprintf("everything agrees from log index %d on", r.FirstLogIndex)
	}
	if r.ErasedWithoutRecord > 0 {
		text += ", but events are erased WITHOUT A RECORD of it"
	}
	return text
}

// notVouchedFor is what is no fault, and what nobody may take for verified.
func notVouchedFor(r *verify.Report) (rows [][]any) {
	if r.Unverified > 0 {
		rows = append(rows, []any{
			"NOT VERIFIED", fmt.Sprintf("%d entries in front of log index %d, and their events", r.Unverified, r.FirstLogIndex),
		})
	}
	if r.ErasedWithoutRecord > 0 {
		rows = append(rows, []any{"NO RECORD", fmt.Sprintf(
			"%d erased events, the first at log index %d, have no erasure on record behind them: one is under way, was "+
				"interrupted or is recorded behind these entries, or somebody has removed the words",
			r.ErasedWithoutRecord, *r.FirstErasedWithoutRecord)})
	}
	return rows
}
