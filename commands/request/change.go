package request

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/web"
)

// Edit is the validated command to edit a comment.
type Edit struct {
	post.Edit

	TimestampGiven bool     // otherwise EditedAt is the time of receipt
	Unknown        []string // members that are ignored; see web.Object.Unknown
}

// EditMembers are the members of an edit, in the order of the documentation.
var EditMembers = []string{"content", "chapterNumber", "timestamp"}

// DecodeEditedPost decodes and validates the body of an edit that was received at receivedAt, with the rules of a
// comment, except that null clears chapterNumber. The error is a *problem.Error with the code invalid_request.
func DecodeEditedPost(body []byte, receivedAt time.Time) (Edit, error) {
	var o object
	if err := o.Parse(body, EditMembers); err != nil {
		return Edit{}, err
	}
	var e Edit
	if e.Content = o.optional("content", asSent, visible(maxContent)); e.Content != nil {
		o.refuseHTML("content", *e.Content)
	}
	if chapter := o.chapter("chapterNumber"); chapter != nil {
		e.ChapterNumber = jsontext.Value(*chapter)
	} else if o.Null("chapterNumber") {
		e.ChapterNumber = jsontext.Value("null")
	}
	e.EditedAt, e.TimestampGiven = o.timestamp("timestamp", receivedAt)
	if e.Content == nil && !o.Given("chapterNumber") && e.ChapterNumber == nil {
		o.Fail("content", "or chapterNumber is required")
	}
	e.Unknown = o.Unknown()
	return e, o.Err()
}

// Canonical returns the normalised form of an edit of the comment with a key, like that of Post.
func (e Edit) Canonical(comment string) []byte {
	var sent, chapter *string
	if e.TimestampGiven {
		at := e.EditedAt.Format(time.RFC3339Nano)
		sent = &at
	}
	if e.ChapterNumber != nil {
		number := string(e.ChapterNumber)
		chapter = &number
	}
	return appendFields([]byte("edit.v1"), &comment, e.Content, chapter, sent)
}

// WithdrawalCanonical returns the normalised form of the withdrawal of the comment with a key.
func WithdrawalCanonical(comment string) []byte {
	return appendFields([]byte("withdrawal.v1"), &comment)
}

// Report is the validated command to report a comment.
type Report struct {
	post.Report

	Unknown []string // members that are ignored; see web.Object.Unknown
}

// The limits of a report's fields.
const (
	maxDetail  = 1_000
	maxReports = 1_000_000
)

// ReportMembers are the members of a report, in the order of the documentation.
var ReportMembers = []string{"reason", "detail", "reports"}

// DecodeReport decodes and validates the body of a report. The error is a *problem.Error with the code invalid_request.
func DecodeReport(body []byte) (Report, error) {
	var o object
	if err := o.Parse(body, ReportMembers); err != nil {
		return Report{}, err
	}
	r := Report{Report: post.Report{Reason: o.required("reason", asSent, checkReason), Reports: 1}}
	if detail := o.optional("detail", strings.TrimSpace, length(0, maxDetail)); detail != nil {
		r.Detail = *detail
	}
	if number, ok := o.Number("reports"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxReports {
			o.Fail("reports", "must be a whole number from 1 to %s, got %s", web.Thousands(maxReports), web.Clip(number))
		}
		r.Reports = n
	}
	r.Unknown = o.Unknown()
	return r, o.Err()
}

func checkReason(s string) string {
	if slices.Contains(events.ReportReasons[:], s) {
		return ""
	}
	return fmt.Sprintf("must be one of %s, got %q", strings.Join(events.ReportReasons[:], ", "), web.Clip(s))
}

// Canonical returns the normalised form of a report of a comment, like that of Post.
func (r Report) Canonical(comment string) []byte {
	reports := strconv.Itoa(r.Reports)
	return appendFields([]byte("report.v1"), &comment, &r.Reason, &r.Detail, &reports)
}
