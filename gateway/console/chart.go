package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The size of a chart in its own units, and the room around what is drawn.
const (
	chartWide, chartHigh                      = 340.0, 150.0
	chartLeft, chartRight, chartTop, chartLow = 44.0, 6.0, 8.0, 20.0
)

// Chart shows numbers over time, as an SVG that the template "chart" draws. Text tells the same to
// people who do not see it.
type Chart struct {
	ID, Title, Text string
	Width, Height   float64
	Lines           []chartLine
	Keys            []chartLine // one for each name
	Across          []chartMark // lines across, with their values
	Along           []chartMark // times
	Left, Right     float64     // where lines across begin and end
}

// chartLine is a line, or with Area what is under it.
type chartLine struct {
	Name, Class, Points string
	Area                bool
}

// chartMark is a place at an axis.
type chartMark struct {
	X, Y float64
	Text string
}

// numbers are one series of a chart: a value for each step of time, or none.
type numbers struct {
	name, class string // the class gives the line its colour
	area        bool   // the area under the line is filled; there is a value for each step
	values      []float64
}

// none marks a step without a value.
var none = math.NaN()

// newChart makes a chart of steps of time; first is the begin of the first one. unit writes a
// value.
func newChart(id, title string, first time.Time, step time.Duration, unit func(float64) string, all ...numbers) Chart {
	c := Chart{ID: id, Title: title, Width: chartWide, Height: chartHigh, Left: chartLeft, Right: chartWide - chartRight}
	most, steps := 0.0, 0
	for _, n := range all {
		steps = max(steps, len(n.values))
		for _, v := range n.values {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	top := ceiling(most)
	x := func(i int) float64 { return chartLeft + (c.Right-chartLeft)*float64(i)/float64(max(1, steps-1)) }
	y := func(v float64) float64 { return chartTop + (chartHigh-chartLow-chartTop)*(1-v/top) }
	for i := range 3 {
		v := top * float64(i) / 2
		c.Across = append(c.Across, chartMark{chartLeft, y(v), unit(v)})
	}
	if steps > 1 {
		for _, i := range []int{0, (steps - 1) / 2, steps - 1} {
			c.Along = append(c.Along, chartMark{x(i), chartHigh - 4, first.Add(time.Duration(i) * step).UTC().Format("15:04")})
		}
	}
	var said []string
	for _, n := range all {
		high, at, last := 0.0, 0, "nothing"
		for i, v := range n.values {
			if last = "nothing"; !math.IsNaN(v) {
				last = unit(v)
			}
			if v > high {
				high, at = v, i
			}
		}
		said = append(said, fmt.Sprintf("%s: now %s, at most %s at %s", n.name, last, unit(high),
			first.Add(time.Duration(at)*step).UTC().Format("15:04")))
		c.Keys = append(c.Keys, chartLine{Name: n.name, Class: n.class})
		for _, points := range connected(n.values, x, y) {
			if n.area {
				ends := fmt.Sprintf("%s,%s %s %s,%s", place(x(0)), place(y(0)), points, place(x(len(n.values)-1)), place(y(0)))
				c.Lines = append(c.Lines, chartLine{Name: n.name, Class: "area", Points: ends, Area: true})
			}
			c.Lines = append(c.Lines, chartLine{Name: n.name, Class: n.class, Points: points})
		}
	}
	c.Text = strings.Join(said, "; ") + " (UTC)."
	return c
}

// connected returns the points of lines, each from one gap to the next. A value alone is a line
// from itself to itself, which is drawn as a dot.
func connected(values []float64, x func(int) float64, y func(float64) float64) (lines []string) {
	var line []string
	end := func() {
		if len(line) == 1 {
			line = append(line, line[0])
		}
		if line != nil {
			lines = append(lines, strings.Join(line, " "))
		}
		line = nil
	}
	for i, v := range values {
		if math.IsNaN(v) {
			end()
			continue
		}
		line = append(line, place(x(i))+","+place(y(v)))
	}
	end()
	return lines
}

// ceiling returns a round number that is not below a value, and not 0.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, times := range []float64{1, 2, 4, 6, 8, 10} {
		if v <= times*power {
			return times * power
		}
	}
	return 10 * power
}

// place writes a coordinate.
func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// plainly writes a number, with decimals only for small ones.
func plainly(v float64) string {
	if v < 10 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return count(int64(math.Round(v)))
}

// millis writes a number of milliseconds.
func millis(v float64) string { return took(time.Duration(v * float64(time.Millisecond))) }
