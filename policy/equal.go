package policy

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// In CEL, values of different types are unequal: "true" and 1 are not true. A server that
// takes both for true would do what a rule denies for args.force == true. So a strict
// condition fails if it compares values of different types, except null, which no server
// takes for a value.

const (
	equalName   = "equal"
	withinName  = "within"
	differsName = "differs"
)

// strictly are the functions that replace ==, != and in.
var strictly = map[string]string{operators.Equals: equalName, operators.NotEquals: differsName,
	operators.In: withinName}

// comparisons declares these functions, with the types of the operators.
func comparisons() []cel.EnvOption {
	a, b := cel.TypeParamType("A"), cel.TypeParamType("B")
	return []cel.EnvOption{
		cel.Function(equalName, cel.Overload(equalName, []*cel.Type{a, a}, cel.BoolType, cel.BinaryBinding(equal))),
		cel.Function(differsName, cel.Overload(differsName, []*cel.Type{a, a}, cel.BoolType,
			cel.BinaryBinding(func(x, y ref.Val) ref.Val {
				if same, ok := equal(x, y).(types.Bool); ok {
					return !same
				}
				return mismatch(x, y)
			}))),
		cel.Function(withinName,
			cel.Overload("within_list", []*cel.Type{a, cel.ListType(a)}, cel.BoolType, cel.BinaryBinding(within)),
			cel.Overload("within_map", []*cel.Type{a, cel.MapType(a, b)}, cel.BoolType, cel.BinaryBinding(within))),
	}
}

// compareStrictly replaces the operators with the functions.
func compareStrictly(parsed *cel.Ast) {
	factory := celast.NewExprFactory()
	celast.PostOrderVisit(parsed.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind {
			return
		}
		if name, ok := strictly[e.AsCall().FunctionName()]; ok {
			e.SetKindCase(factory.NewCall(e.ID(), name, e.AsCall().Args()...))
		}
	}))
}

func mismatch(x, y ref.Val) ref.Val {
	return types.WrapErr(fmt.Errorf("a %s is compared with a %s", kindOfValue(x), kindOfValue(y)))
}

// kindOfValue is the JSON type of a value.
func kindOfValue(v ref.Val) string {
	switch v.Type() {
	case types.IntType, types.UintType, types.DoubleType:
		return "number"
	case types.BoolType:
		return "boolean"
	case types.ListType:
		return "array"
	case types.MapType:
		return "object"
	case types.NullType:
		return "null"
	}
	return v.Type().TypeName()
}

// equal compares two values. The result is an error if they have different types at any
// depth.
func equal(x, y ref.Val) ref.Val {
	for _, v := range []ref.Val{x, y} {
		if types.IsUnknownOrError(v) {
			return v
		}
	}
	if x.Type() == types.NullType || y.Type() == types.NullType {
		return types.Bool(x.Type() == y.Type())
	}
	if kindOfValue(x) != kindOfValue(y) {
		return mismatch(x, y)
	}
	switch x := x.(type) {
	case traits.Lister:
		y := y.(traits.Lister)
		if x.Size().Equal(y.Size()) != types.True {
			return types.False
		}
		var all []ref.Val
		for i := types.Int(0); i < x.Size().(types.Int); i++ {
			all = append(all, equal(x.Get(i), y.Get(i)))
		}
		return allTrue(all)
	case traits.Mapper:
		y := y.(traits.Mapper)
		if x.Size().Equal(y.Size()) != types.True {
			return types.False
		}
		var all []ref.Val
		for it := x.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			other, found := y.Find(key)
			if !found {
				return types.False
			}
			all = append(all, equal(x.Get(key), other))
		}
		return allTrue(all)
	}
	return types.Equal(x, y)
}

// allTrue is true if all results are true, else false if one is false, else the error.
func allTrue(results []ref.Val) ref.Val {
	if slices.ContainsFunc(results, func(v ref.Val) bool { return v == types.False }) {
		return types.False
	}
	for _, v := range results {
		if v != types.True {
			return v
		}
	}
	return types.True
}

// within reports whether a list contains the value, or an object has a member of this name.
func within(x, in ref.Val) ref.Val {
	if object, ok := in.(traits.Mapper); ok {
		if x.Type() != types.StringType {
			return mismatch(x, types.String(""))
		}
		return object.Contains(x)
	}
	list, ok := in.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(in)
	}
	result := ref.Val(types.False)
	for it := list.Iterator(); it.HasNext() == types.True; {
		switch same := equal(x, it.Next()); {
		case same == types.True:
			return same
		case same != types.False:
			result = same
		}
	}
	return result
}

// comparing estimates the cost of comparisons: the number of elements that they look at.
type comparing struct{}

// CallCost is the cost of a call, nil for functions of CEL itself.
func (comparing) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != equalName && function != differsName && function != withinName {
		return nil
	}
	cost := uint64(1)
	for _, v := range args {
		cost += weight(v)
	}
	return &cost
}

func weight(v ref.Val) uint64 {
	const perByte = 10 // bytes of text for a unit
	if text, ok := v.(types.String); ok {
		return uint64(len(text) / perByte)
	}
	if sized, ok := v.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return uint64(n)
		}
	}
	return 0
}
