package request

import "novelgate/internal/title"

// StaffNovel is the validated command of staff to publish a title or to edit a canonical novel. Its fields are under
// the same rules as those of a partner's upsert.
type StaffNovel struct {
	Novel         // without a title in an edit
	Reason string // "" when none was given
}

// staffReason is the member that staff may add to those of a novel.
const staffReason = novelReadingStatus + 1

var staffNovelNames = append(novelNames[:len(novelNames):len(novelNames)], "reason")

// DecodePublication reads and checks the body with which staff publish a title. Unlike in an upsert, an unknown member
// is refused. The error is a *problem.Error with the code invalid_request.
func DecodePublication(body []byte) (StaffNovel, error) {
	o := object{strict: true}
	if err := o.parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err
	}
	n := StaffNovel{Novel: o.details(Novel{Title: o.title(novelTitle)})}
	return n.finish(&o)
}

// DecodeEdit reads and checks the body with which staff edit a novel, like DecodePublication. A title is refused.
func DecodeEdit(body []byte) (StaffNovel, error) {
	o := object{strict: true}
	if err := o.parse(body, staffNovelNames); err != nil {
		return StaffNovel{}, err
	}
	if o.raw[novelTitle] != nil {
		o.fail(novelTitle, "cannot be changed: a title stays as it is")
	} else {
		_, _ = o.value(novelTitle, '"', false) // a name in another case is an unknown member
	}
	n := StaffNovel{Novel: o.details(Novel{})}
	return n.finish(&o)
}

func (n StaffNovel) finish(o *object) (StaffNovel, error) {
	n.Reason, _ = o.text(staffReason, false)
	if err := o.err(); err != nil {
		return StaffNovel{}, err
	}
	n.FoldedTitle = title.Fold(n.Title)
	return n, nil
}

// Canonical returns bytes that are equal for two commands that mean the same, as those of Novel, the reason with them.
func (n StaffNovel) Canonical() []byte { return appendText(n.Novel.Canonical(), n.Reason) }
