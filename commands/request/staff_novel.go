package request

import (
	"novelgate/internal/httpkit"
	"novelgate/internal/title"
)

// StaffNovel is the validated command of staff to publish a title or to edit a canonical novel. The rules of its fields
// are those of a partner's upsert.
type StaffNovel struct {
	Novel         // without a title in an edit
	Reason string // "" when none was given
}

var staffNovelNames = append(novelNames[:len(novelNames):len(novelNames)], "reason")

// DecodePublication decodes and validates the body of a publication by staff. Unlike in an upsert, an unknown member is
// refused. The error is a *problem.Error with the code invalid_request.
func DecodePublication(body []byte) (StaffNovel, error) {
	o := object{httpkit.Object{Strict: true}}
	if err := o.Parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err //nolint:wrapcheck // already a problem
	}
	return o.staffNovel(o.title("novel"))
}

// DecodeEdit decodes and validates the body of an edit by staff, like DecodePublication. A title is refused.
func DecodeEdit(body []byte) (StaffNovel, error) {
	o := object{httpkit.Object{Strict: true}}
	if err := o.Parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err //nolint:wrapcheck // already a problem
	}
	if o.Given("novel") {
		o.Fail("novel", "cannot be changed: a title stays as it is")
	} else {
		_, _ = o.Text("novel", false) // a name in another case is an unknown member
	}
	return o.staffNovel("")
}

func (o *object) staffNovel(cleaned string) (StaffNovel, error) {
	n := StaffNovel{Novel: o.details(Novel{Title: cleaned, FoldedTitle: title.Fold(cleaned)})}
	n.Reason, _ = o.Text("reason", false)
	return n, o.Err()
}

// Canonical returns the normalised form of a command: that of Novel and the reason.
func (n StaffNovel) Canonical() []byte { return appendText(n.Novel.Canonical(), n.Reason) }
