package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	celenv "cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of conditions.
const (
	maxCondition = 4096 // characters of its text
	// maxCost bounds the cost of an evaluation in units of CEL, and so its time: a unit takes
	// up to a microsecond. Usual conditions cost ten to a hundred.
	maxCost = 100_000
	// maxMemory bounds the elements that an evaluation creates.
	maxMemory = 10 * maxValues
	// maxExpression bounds a regular expression that is not constant.
	maxExpression = 1000
	// checkEvery is the number of iterations after which an evaluation checks its context.
	checkEvery = 100
)

// The variables of conditions. Those of the caller are known before the call, and those of
// the target before its arguments.
const varArgs = "args"

var (
	callerVariables = []string{"caller.user", "caller.issuer", "caller.groups", "caller.scopes", "caller.client",
		"caller.email", "caller.claims"}
	targetVariables = []string{"target.kind", "target.upstream", "target.name"}
)

// language is the language of conditions: CEL with the gateway's variables, and without
// functions that read the system's time zones. It has no time of day and no I/O.
type language struct{ env *cel.Env }

func newLanguage() (*language, error) {
	stdlib := celenv.NewLibrarySubset()
	for _, name := range []string{"getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours",
		"getMilliseconds", "getMinutes", "getMonth", "getSeconds"} {
		stdlib.ExcludeFunctions = append(stdlib.ExcludeFunctions, celenv.NewFunction(name))
	}
	object := cel.MapType(cel.StringType, cel.DynType)
	texts := cel.ListType(cel.StringType)
	env, err := cel.NewCustomEnv(append(comparisons(),
		cel.StdLib(cel.StdLibSubset(stdlib)),
		cel.ParserExpressionSizeLimit(maxCondition),
		cel.RegexProgramSizeLimit(maxExpression),
		cel.EnableErrorOnBadPresenceTest(true),
		cel.CrossTypeNumericComparisons(true),
		cel.Variable(varArgs, object),
		cel.Variable("caller.user", cel.StringType),
		cel.Variable("caller.issuer", cel.StringType),
		cel.Variable("caller.groups", texts),
		cel.Variable("caller.scopes", texts),
		cel.Variable("caller.client", cel.StringType),
		cel.Variable("caller.email", cel.StringType),
		cel.Variable("caller.claims", object),
		cel.Variable("target.kind", cel.StringType),
		cel.Variable("target.upstream", cel.StringType),
		cel.Variable("target.name", cel.StringType),
	)...)
	if err != nil {
		return nil, fmt.Errorf("policy: the language of conditions: %w", err)
	}
	return &language{env}, nil
}

// condition is a compiled when. It is safe for concurrent use.
type condition struct {
	program cel.Program
	args    bool     // it looks at arguments
	caller  bool     // at the caller
	target  bool     // at the target
	hidden  Missing  // what it looks at that records do not have
	names   []string // of members that it names
	folded  []string // these names, without their case
	// strict says that the condition judges only arguments with the types of the tool's
	// schema, and compares no values of different types.
	strict bool
}

// outcome is the result of a condition.
type outcome uint8

const (
	isFalse outcome = iota
	isTrue
	isOpen // it depends on what is not known yet
	failed // it cannot be evaluated
)

// compile compiles a condition; the error says where the mistake is.
func (l *language) compile(text string, strict bool) (*condition, error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("%d characters are more than %d", len(text), maxCondition)
	}
	parsed, issues := l.env.Parse(text)
	if issues.Err() != nil {
		return nil, wrongAt(text, issues.Errors()[0])
	}
	if _, issues = l.env.Check(parsed); issues.Err() != nil {
		return nil, wrongAt(text, issues.Errors()[0])
	}
	if strict {
		compareStrictly(parsed)
	}
	checked, issues := l.env.Check(parsed)
	if issues.Err() != nil {
		return nil, wrongAt(text, issues.Errors()[0])
	}
	if checked.OutputType() != types.BoolType {
		return nil, fmt.Errorf("is a %s: want true or false, by a comparison such as args.force == true",
			checked.OutputType())
	}
	program, err := l.env.Program(checked,
		cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval),
		cel.CostTracking(comparing{}), cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory),
		cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, err
	}
	c := &condition{program: program, strict: strict}
	celast.PreOrderVisit(checked.NativeRep().Expr(), celast.NewExprVisitor(c.visit))
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	for _, name := range c.names {
		c.folded = append(c.folded, fold(name))
	}
	return c, nil
}

// wrongAt says what is wrong with a condition, and where.
func wrongAt(text string, e *cel.Error) error {
	line, column := e.Location.Line(), max(e.Location.Column(), 0) // -1 in a text without characters
	message := e.Message
	lines := strings.Split(text, "\n")
	if line >= 1 && line <= len(lines) {
		if at := []rune(lines[line-1]); column < len(at) && at[column] == '=' &&
			strings.Contains(message, "token recognition") {
			message = "= compares nothing: write =="
		}
	}
	if strings.Contains(message, "overload for '_==_'") || strings.Contains(message, "overload for '_!=_'") {
		if strings.Contains(message, "list(") {
			message += `: a list has no such value itself: write "x" in caller.groups`
		}
	}
	if len(lines) == 1 { // not the line in the file
		return fmt.Errorf("at character %d: %s", column+1, message)
	}
	return fmt.Errorf("at character %d of its line %d: %s", column+1, line, message)
}

// visit notes what the condition looks at. Every string in it may also be the name of a
// member, as in args["owner"].
func (c *condition) visit(e celast.Expr) {
	switch e.Kind() {
	case celast.IdentKind:
		name := e.AsIdent()
		c.args = c.args || name == varArgs
		c.caller = c.caller || slices.Contains(callerVariables, name)
		c.target = c.target || slices.Contains(targetVariables, name)
		c.hidden |= hiddenVariables[name]
	case celast.SelectKind:
		c.names = append(c.names, e.AsSelect().FieldName())
	case celast.LiteralKind:
		if text, ok := e.AsLiteral().(types.String); ok {
			c.names = append(c.names, string(text))
		}
	}
}

// facts are the input of a condition. A nil field is not known yet.
type facts struct {
	subject *subject
	target  *mcp.Target
	args    *arguments
	// nameless says that the target's name is not known yet.
	nameless bool
}

// arguments are those of a call, parsed when a condition first needs them.
type arguments struct {
	text   mcp.Raw
	read   bool
	values map[string]any
	names  names
	err    error

	// schema is what the arguments have to fit for strict conditions; nil for no schema.
	schema  func() *schema
	checked bool
	unfit   error
}

// fit reports how the arguments violate the schema.
func (a *arguments) fit() error {
	if !a.checked {
		a.checked = true
		if a.schema != nil && !a.text.IsNull() {
			a.unfit = a.schema().check(a.values)
		}
	}
	return a.unfit
}

// object returns the arguments, an empty object if they are missing or null.
func (a *arguments) object() (map[string]any, error) {
	if !a.read {
		a.read = true
		if a.text.IsNull() {
			a.values = map[string]any{}
		} else if a.values, a.names, a.err = readObject(a.text); a.err != nil {
			a.err = fmt.Errorf("the arguments: %w", a.err)
		}
	}
	return a.values, a.err
}

// eval evaluates the condition. The error says why it failed.
func (c *condition) eval(ctx context.Context, f facts) (outcome, error) {
	if f.subject != nil && f.subject.unclear != nil {
		return failed, f.subject.unclear
	}
	if c.args && f.args != nil {
		if _, err := f.args.object(); err != nil {
			return failed, err
		}
		for i, name := range c.names {
			if f.args.names.twin(name, c.folded[i]) {
				return failed, fmt.Errorf("the arguments have %q in another case", name)
			}
		}
		if c.strict {
			if err := f.args.fit(); err != nil {
				return failed, err
			}
		}
	}
	var input any = f
	if unknown := f.unknown(); unknown != nil {
		partial, err := cel.PartialVars(f, unknown...)
		if err != nil {
			return failed, err
		}
		input = partial
	}
	value, _, err := c.program.ContextEval(ctx, input)
	switch {
	case err != nil:
		return failed, shorten(err)
	case types.IsUnknown(value):
		return isOpen, nil
	case value == types.True:
		return isTrue, nil
	case value == types.False:
		return isFalse, nil
	}
	return failed, errors.New("the result is neither true nor false")
}

// inTurn evaluates the condition as decisions do: with the caller, else with the target, else
// with both, else with everything. An early certain result holds, whatever the arguments are.
func (c *condition) inTurn(ctx context.Context, f facts) (outcome, error) {
	for _, known := range []facts{{subject: f.subject}, {target: f.target}, {subject: f.subject, target: f.target}} {
		if result, err := c.eval(ctx, known); result != isOpen {
			return result, err
		}
	}
	return c.eval(ctx, f)
}

// unknown are the variables that are not known yet.
func (f facts) unknown() (patterns []*cel.AttributePatternType) {
	add := func(variables ...string) {
		for _, v := range variables {
			patterns = append(patterns, cel.AttributePattern(v))
		}
	}
	switch {
	case f.subject == nil:
		add(callerVariables...)
	case f.subject.hidden:
		add(slices.Collect(maps.Keys(hiddenVariables))...)
	}
	if f.target == nil {
		add(targetVariables...)
	} else if f.nameless {
		add("target.name")
	}
	if f.args == nil {
		add(varArgs)
	}
	return patterns
}

// ResolveName returns the value of a variable, for CEL.
func (f facts) ResolveName(name string) (any, bool) {
	switch {
	case name == varArgs && f.args != nil:
		values, err := f.args.object()
		return values, err == nil
	case strings.HasPrefix(name, "target.") && f.target != nil:
		switch name {
		case "target.kind":
			return f.target.Kind, true
		case "target.upstream":
			return f.target.Upstream, true
		case "target.name":
			return f.target.Name, true
		}
	case strings.HasPrefix(name, "caller.") && f.subject != nil:
		return f.subject.variable(name)
	}
	return nil, false
}

// Parent is nil: there are no other variables.
func (f facts) Parent() cel.Activation { return nil }

func (p *subject) variable(name string) (any, bool) {
	switch name {
	case "caller.user":
		return p.caller.Subject, true
	case "caller.issuer":
		return p.caller.Issuer, true
	case "caller.groups":
		return nonNil(p.caller.Groups), true
	case "caller.scopes":
		return nonNil(p.caller.Scopes), true
	case "caller.client":
		return p.caller.ClientID, true
	case "caller.email":
		return p.email, true
	case "caller.claims":
		if p.claims == nil {
			return map[string]any{}, true
		}
		return p.claims, true
	}
	return nil, false
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// shorten reduces an error of CEL to its first line, which contains no values of arguments.
func shorten(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(text)
}
