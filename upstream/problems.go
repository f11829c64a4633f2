package upstream

import "fmt"

// problems are what is wrong with a configuration.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// when adds a problem if it is one.
func (p *problems) when(wrong bool, format string, args ...any) {
	if wrong {
		p.add(format, args...)
	}
}
