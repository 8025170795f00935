package answer

import (
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// compressFrom is the size, in bytes, from which an answer is compressed: a smaller one fits into a packet either way.
const compressFrom = 1024

// compress is gzip at its fastest: of a page of 40 kB it makes 7 (BenchmarkCompress). Neither zstd, whose encoders take
// megabytes each, nor brotli, which is slow, gains much on that.
var compress = newCompress()

func newCompress() func(http.Handler) http.HandlerFunc {
	wrapper, err := gzhttp.NewWrapper(gzhttp.MinSize(compressFrom), gzhttp.CompressionLevel(gzip.BestSpeed),
		gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return wrapper
}

// Compress lets next answer with gzip those who take it (Accept-Encoding). What next sets as ETag must be a weak one,
// as it names both. It is for what is public: an answer that holds a secret beside what a request says would tell the
// secret by its size (BREACH).
func Compress(next http.Handler) http.Handler { return compress(next) }
