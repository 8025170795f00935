package e2e_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPartnersDoNotSeeEachOther lets one partner ask for all that another has, where it does not have it itself, and
// where both used the same Idempotency-Key. That no partner reaches keys and integrations is shown by TestPrincipals.
func TestPartnersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	mine, theirs := s.NewPartner(t), s.NewPartner(t)
	myTitle, theirTitle := Unique("Mine"), Unique("Theirs")
	mine.Upsert(t, "shared", Fields{"novel": myTitle}).WantNovel(t, 201)
	theirs.Upsert(t, "shared", Fields{"novel": theirTitle}).WantNovel(t, 201)
	theirs.Upsert(t, "theirs", Fields{"novel": theirTitle}).WantNovel(t, 200)
	mine.Import(t, "shared", Comment(myTitle)).WantPost(t, 201)
	parent := theirs.Import(t, "theirs", Comment(theirTitle)).WantPost(t, 201)
	shared := theirs.Import(t, "shared", Comment(theirTitle)).WantPost(t, 201)

	for _, operation := range []string{"novels", "posts"} {
		query := "?operation=" + operation
		theirs.Inquire(t, "/api/integrations/deliveries/theirs"+query).WantJSON(t, 200, &struct{}{})
		mine.Inquire(t, "/api/integrations/deliveries/theirs"+query).WantProblem(t, 404, "not_found")
		var own, foreign struct{ NovelID, PostID string }
		mine.Inquire(t, "/api/integrations/deliveries/shared"+query).WantJSON(t, 200, &own)
		theirs.Inquire(t, "/api/integrations/deliveries/shared"+query).WantJSON(t, 200, &foreign)
		if own.NovelID == foreign.NovelID {
			t.Errorf("%s: both deliveries of one key show novel %s", operation, own.NovelID)
		}
		if operation == "posts" && (own.PostID == foreign.PostID || foreign.PostID != shared.PostID) {
			t.Errorf("deliveries of one key show posts %s and %s, want theirs to be %s", own.PostID, foreign.PostID,
				shared.PostID)
		}
		asked := Fields{"operation": operation, "idempotencyKeys": []string{"theirs", "shared"}}
		for partner, missing := range map[*Partner][]string{mine: {"theirs"}, theirs: {}} {
			var answer struct {
				Missing []string
				Present int
			}
			s.Send(t, partner.Request("/api/integrations/deliveries/reconcile", "", asked.JSON(t))).WantJSON(t, 200, &answer)
			if diff := cmp.Diff(missing, answer.Missing); diff != "" || answer.Present != 2-len(missing) {
				t.Errorf("reconcile %s: %d present, missing (-want +got)\n%s", operation, answer.Present, diff)
			}
		}
	}

	var me struct{ IntegrationID, Name string }
	mine.Inquire(t, "/api/integrations/me").WantJSON(t, 200, &me)
	if me.IntegrationID != mine.IntegrationID || me.Name != mine.Name {
		t.Errorf("me is %+v, want %s", me, mine.IntegrationID)
	}
	if novel := mine.Upsert(t, Key(), everything(theirTitle)).WantNovel(t, 200); novel.Updated ||
		novel.Canonical {
		t.Errorf("their novel: %+v, want neither updated nor canonical", novel)
	}
	if got := s.Novel(t, theirTitle); got.Owner != theirs.IntegrationID || got.Author != "Unknown" {
		t.Errorf("their novel has become %+v", got)
	}
	comment := Comment(theirTitle).With(Fields{"parent_uuid": "theirs"})
	reply := mine.Import(t, Key(), comment).WantPost(t, 201)
	if reply.Parent() != "" || reply.ThreadID != parent.ThreadID {
		t.Errorf("a reply to their comment, by their key: %+v, want the top level of thread %s", reply, parent.ThreadID)
	}
}
