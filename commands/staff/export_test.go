package staff

import "context"

// PostsStatement returns the statement for a page of posts, for tests of its plan.
func (s *Staff) PostsStatement(ctx context.Context, f PostFilter) (sql string, args []any, err error) {
	q, err := s.postQuery(ctx, f)
	if err != nil {
		return "", nil, err
	}
	return q.page(f.Limit + 1), q.args, nil
}

// ContextStatements returns the statements about what surrounds a post, $1, and about an author, $1.
func ContextStatements() (ofPost []string, ofAuthor string) {
	for _, walk := range contextWalks {
		q := postQuery{walk: walk, filter: "true", order: "place"}
		ofPost = append(ofPost, q.page(10))
	}
	return ofPost, postsCountsSQL
}
