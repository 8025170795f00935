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
