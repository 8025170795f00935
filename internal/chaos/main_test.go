package chaos_test

import (
	"os"
	"testing"

	"novelgate/internal/blackbox"
)

func TestMain(m *testing.M) { os.Exit(blackbox.Run(m, 4)) }
