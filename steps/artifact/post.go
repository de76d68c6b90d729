package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"nodejoin/steps"
)

// postTimeout bounds a question to a service and its answer.
const postTimeout = time.Minute

// Post sends JSON to a service and returns its answer, of at most limit bytes.
func (s *Store) Post(ctx context.Context, url string, body []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, postTimeout, fmt.Errorf("no answer for %s", postTimeout))
	defer cancel()
	fail := func(err error) ([]byte, error) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("asking %s: %w", steps.ShowURL(url), plain(err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nodejoin")
	resp, err := s.fetch.client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("the server answered %s", resp.Status))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return fail(err)
	case int64(len(text)) > limit:
		return fail(fmt.Errorf("the answer has more than %d bytes", limit))
	}
	return text, nil
}
