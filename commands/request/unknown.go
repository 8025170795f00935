package request

import (
	"math"
	"strings"

	"github.com/agnivade/levenshtein"
)

// NearestPostMember returns the member of a comment that is most similar to an unknown name, "" if none is similar.
func NearestPostMember(unknown string) string { return nearestMember(unknown, PostMembers) }

// NearestNovelMember is NearestPostMember for an upsert.
func NearestNovelMember(unknown string) string { return nearestMember(unknown, NovelMembers) }

// nearestMember compares the letters of names, ignoring case. Two names are similar if one contains the other, such as
// username and user, and the shorter one has at least shortestPart letters. They are also similar if their edit
// distance is less than half the length of the longer one. Names of the first kind are preferred.
func nearestMember(unknown string, names []string) (nearest string) {
	const shortestPart = 4
	sent, best := letters(unknown), math.MaxInt
	for _, name := range names {
		known := letters(name)
		distance, longer := levenshtein.ComputeDistance(sent, known), max(len(sent), len(known))
		switch {
		case min(len(sent), len(known)) >= shortestPart && (strings.Contains(sent, known) || strings.Contains(known, sent)):
		case 2*distance < longer:
			distance += partsFirst
		default:
			continue
		}
		if distance < best {
			nearest, best = name, distance
		}
	}
	return nearest
}

// partsFirst sorts names that are only similar by their edit distance behind all others. No distance is as large,
// because web.Clip shortens unknown names.
const partsFirst = 1000

// letters returns the ASCII letters of a name in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}
