package pages

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"unicode"

	"github.com/gorilla/mux"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/text/unicode/norm"

	"novelgate/internal/httpkit"
)

// card is the picture of a link preview (https://ogp.me) of a novel without a cover, or of the platform. The embedded
// font has Latin, Greek and Cyrillic letters. A text in any other script is left out, because a font for all scripts
// takes megabytes, and Arabic and Thai also need a program that shapes them. Every preview has the title beside the
// picture (og:title).
type card struct {
	accent, site string
	title        string // "" on the card of the platform, and if the font cannot draw it
}

// Sizes in pixels.
const (
	cardWidth, cardHeight = 1200, 630

	cardMargin              = 72
	coverWidth, coverHeight = 280, 420
	letterSize, siteSize    = 200, 40
	capHeight               = letterSize * 7 / 10 // of a capital of letterSize
	accentHeight            = 16
)

// titleSizes are the sizes of the letters of a title, with the maximum number of lines in each size.
var titleSizes = []struct {
	size  float64
	lines int
}{{84, 3}, {64, 4}, {48, 6}}

// cachedCards is the number of cards in the cache. One has about 20 kB, and takes about 45 ms to draw if its title is
// long.
const cachedCards = 128

// cards handles GET /card.png and GET /novels/{slug}/card.png.
func (p *Pages) cards() http.Handler {
	// The kit of the pages, with the limit of CardReaders.
	kit := httpkit.Kit{
		Logger: p.Logger, Timeout: p.Timeout, Now: p.Now, Problems: p.Problems,
		Readers: p.CardReaders,
	}
	cache, _ := lru.New[card, []byte](cachedCards) // it fails only for a negative size
	rendered := kit.Rendered("image/png", func(ctx context.Context, r *http.Request) (httpkit.RenderFunc, error) {
		title := ""
		if slug, ok := mux.Vars(r)["slug"]; ok {
			n, err := p.Reader.Novel(ctx, slug, nil)
			if err != nil {
				return nil, err
			}
			title = n.Title
		}
		c := p.card(title)
		return func(w io.Writer) error {
			drawn, ok := cache.Get(c)
			if !ok {
				var b bytes.Buffer
				if err := c.encode(&b); err != nil {
					return err
				}
				drawn = b.Bytes()
				cache.Add(c, drawn)
			}
			_, err := w.Write(drawn)
			return err
		}, nil
	}, p.refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=86400") // refuse replaces it
		rendered.ServeHTTP(w, r)
	})
}

func (p *Pages) card(title string) card {
	return card{p.Site.Accent, drawable(p.siteName()), drawable(title)}
}

// preview is the picture of a link preview.
type preview struct {
	Address string
	Card    bool // the picture is a card, not a cover
}

// preview returns the cover of a novel, or its card if it has no cover; for an empty slug the card of the platform. The
// address of a card changes with the card.
func (p *Pages) preview(slug, title, coverURL string) preview {
	if cover := p.coverAddress(p.Addresses.Public(), slug, coverURL); cover != "" {
		return preview{Address: cover}
	}
	c := p.card(title)
	page := p.Addresses.Start()
	if slug != "" {
		page += "novels/" + url.PathEscape(slug) + "/"
	}
	return preview{page + "card.png?v=" + shortDigest(fmt.Appendf(nil, "%q", c)), true}
}

var cardFont = sync.OnceValue(func() *opentype.Font {
	f, err := opentype.Parse(gobold.TTF)
	if err != nil {
		panic(err) // impossible: the font is embedded
	}
	return f
})

// drawable returns a text in one line; "" if the font cannot draw one of its characters.
func drawable(text string) string {
	text = strings.Join(strings.Fields(norm.NFC.String(withoutBidi(text))), " ")
	for _, r := range text {
		index, err := cardFont().GlyphIndex(nil, r)
		if err != nil || index == 0 {
			return ""
		}
	}
	return text
}

// encode writes a card as PNG.
func (c card) encode(w io.Writer) error {
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(w, c.draw()); err != nil {
		return fmt.Errorf("encode card: %w", err)
	}
	return nil
}

func (c card) draw() image.Image {
	picture := image.NewRGBA(image.Rect(0, 0, cardWidth, cardHeight))
	fill := func(r image.Rectangle, with color.Color) {
		draw.Draw(picture, r, image.NewUniform(with), image.Point{}, draw.Src)
	}
	colour, onColour := accentColours(c.accent)
	if c.title == "" {
		fill(picture.Bounds(), colour)
		drawTitle(picture, onColour, cardMargin, c.site)
		return picture
	}
	fill(picture.Bounds(), color.White)
	fill(image.Rect(0, 0, cardWidth, accentHeight), colour)

	y := (cardHeight - coverHeight + accentHeight) / 2
	cover := image.Rect(0, 0, coverWidth, coverHeight).Add(image.Pt(cardMargin, y))
	fill(cover, colour)
	face, letter := cardFace(letterSize), firstLetter(c.title)
	x := cover.Min.X + (coverWidth-font.MeasureString(face, letter).Ceil())/2
	drawText(picture, face, onColour, x, cover.Min.Y+(coverHeight+capHeight)/2, letter)

	left := cover.Max.X + cardMargin
	drawTitle(picture, color.Gray{0x1c}, left, c.title)
	if lines, _ := wrap(cardFace(siteSize), c.site, cardWidth-cardMargin-left, 1); len(lines) > 0 {
		drawText(picture, cardFace(siteSize), color.Gray{0x58}, left, cardHeight-cardMargin, lines[0])
	}
	return picture
}

// drawTitle draws a title in the largest size in which it fits, or else cut in the smallest size.
func drawTitle(picture draw.Image, ink color.Color, left int, title string) {
	const top = cardMargin + accentHeight
	for i, step := range titleSizes {
		face := cardFace(step.size)
		lines, whole := wrap(face, title, cardWidth-cardMargin-left, step.lines)
		if !whole && i < len(titleSizes)-1 {
			continue
		}
		for n, line := range lines {
			drawText(picture, face, ink, left, top+int(step.size*(1+1.2*float64(n))), line)
		}
		return
	}
}

func cardFace(size float64) font.Face {
	const dpi = 72 // a point is a pixel
	face, err := opentype.NewFace(cardFont(), &opentype.FaceOptions{Size: size, DPI: dpi})
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return face
}

func drawText(picture draw.Image, face font.Face, with color.Color, x, baseline int, text string) {
	d := font.Drawer{Dst: picture, Src: image.NewUniform(with), Face: face, Dot: fixed.P(x, baseline)}
	d.DrawString(text)
}

// wrap breaks a text into at most maxLines lines that fit a width, between words if possible. whole reports whether the
// lines have the whole text; if not, the last one ends with an ellipsis.
func wrap(face font.Face, text string, width, maxLines int) (lines []string, whole bool) {
	fits := func(s string) bool { return font.MeasureString(face, s).Ceil() <= width }
	rest := []rune(text)
	for len(rest) > 0 {
		end := lineEnd(rest, fits)
		line := strings.TrimSpace(string(rest[:end]))
		rest = []rune(strings.TrimSpace(string(rest[end:])))
		if len(lines) == maxLines-1 && len(rest) > 0 {
			return append(lines, withEllipsis(line, fits)), false
		}
		lines = append(lines, line)
	}
	return lines, true
}

// lineEnd returns the number of characters in the first line of a text: as many as fit, at least one, and no part of a
// word after the first.
func lineEnd(text []rune, fits func(string) bool) int {
	end, afterSpace := 1, 0
	for end < len(text) && fits(string(text[:end+1])) {
		end++
		if text[end-1] == ' ' {
			afterSpace = end
		}
	}
	breaksWord := end < len(text) && text[end] != ' '
	if breaksWord && afterSpace > 0 {
		return afterSpace
	}
	return end
}

// withEllipsis returns as many characters of a line as fit with an ellipsis, and the ellipsis.
func withEllipsis(line string, fits func(string) bool) string {
	cut := []rune(line)
	for len(cut) > 0 && !fits(string(cut)+"…") {
		cut = cut[:len(cut)-1]
	}
	return string(cut) + "…"
}

// accentColours returns the operator's colour, by default that of links, and the colour of text on it: black or white,
// whichever is easier to read.
func accentColours(accent string) (colour, on color.Color) {
	rgb, err := hex.DecodeString(strings.TrimPrefix(accent, "#"))
	if err != nil || len(rgb) != 3 {
		rgb = []byte{0x1a, 0x4f, 0xc4}
	}
	c := color.RGBA{rgb[0], rgb[1], rgb[2], 0xff}
	if y, _ := color.GrayModel.Convert(c).(color.Gray); y.Y > 0x8c {
		return c, color.Black
	}
	return c, color.White
}

// firstLetter returns the letter or digit that stands for a novel without a cover; "" if its title has none.
func firstLetter(title string) string {
	for _, r := range title {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return ""
}
