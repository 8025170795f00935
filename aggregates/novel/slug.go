package novel

import "github.com/google/uuid"

// SlugCandidates are the slugs that a novel may get, best first: what its title spells, or "novel" for a title
// without letters, then with more and more of its identifier behind. The first one that is free is taken.
func SlugCandidates(spelled string, novelID uuid.UUID) []string {
	id := novelID.String()
	if spelled == "" {
		return []string{"novel-" + id[:8], "novel-" + id}
	}
	return []string{spelled, spelled + "-" + id[:8], spelled + "-" + id}
}

// PickSlug returns the first candidate that is not taken. The last one holds the whole identifier, so it is free
// unless somebody chose a title to spell it; then the unique constraint refuses that one command.
func PickSlug(candidates []string, taken map[string]struct{}) string {
	for _, candidate := range candidates {
		if _, ok := taken[candidate]; !ok {
			return candidate
		}
	}
	return candidates[len(candidates)-1]
}
