package catalogue

// changedEvery is the distance of novels that change.
const changedEvery = 10

// Changes returns a later version of every tenth novel, under a key of its own.
func Changes(novels []Novel) []Novel {
	statuses := []string{"ongoing", "completed", "hiatus"}
	var changes []Novel
	for i := 0; i < len(novels); i += changedEvery {
		n := i / changedEvery
		change := Novel{
			Key: novels[i].Key + "-changed", Title: novels[i].Title,
			Synopsis:      "What “" + novels[i].Title + "” is about, as of later.",
			ReadingStatus: statuses[n%len(statuses)],
		}
		if n%2 == 0 {
			change.Genres = []string{"Genre " + change.ReadingStatus, "with, a comma", `and "quotes"`}
		}
		changes = append(changes, change)
	}
	return changes
}
