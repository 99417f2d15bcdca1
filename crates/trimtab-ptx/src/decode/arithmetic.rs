//! Arithmetic, logic, comparisons and conversions.

use super::{Arguments, Words, compute};
use crate::number::{Half, Rounding};
use crate::op::{Carry, Combine, Comparison, Conversion, FloatOp, Function, Op, Style, Whole};
use crate::operand::{Argument, Origin};
use crate::scalar::Scalar;

pub(super) fn decode(name: &str, words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    match name {
        "setp" => return compare(words, operands),
        "selp" => {
            words.scalar()?;
            return compute(Function::Select, operands, 3);
        }
        "cvt" => return convert(words, operands),
        "lop3" => {
            let scalar = words.scalar()?;
            return compute(Function::Whole(Whole::Logic3, scalar), operands, 4);
        }
        _ => {}
    }
    if let Some(function) = carry(name, words) {
        return function_with_carry(function, name, words, operands);
    }
    if name == "testp" {
        let float = words
            .find(|word| {
                Some(match word {
                    "finite" => FloatOp::IsFinite,
                    "infinite" => FloatOp::IsInfinite,
                    "number" => FloatOp::IsNumber,
                    "notanumber" => FloatOp::IsNan,
                    "normal" => FloatOp::IsNormal,
                    "subnormal" => FloatOp::IsSubnormal,
                    _ => return None,
                })
            })
            .ok_or("a test that is not modelled")?;
        let style = Style { rounding: Rounding::Nearest, flush: false, saturate: false };
        let function = match words.scalar()? {
            Scalar::F32 => Function::Float(float, style),
            Scalar::F64 => Function::Double(float, style),
            _ => return Err("a type that is not modelled here".to_string()),
        };
        return compute(function, operands, 1);
    }
    // The integer result of these is always of 32 bits, the type that of the operand.
    let scalar = words.scalar()?;
    if scalar.is_float() {
        float(name, scalar, words, operands)
    } else {
        whole(name, scalar, words, operands)
    }
}

fn whole(name: &str, scalar: Scalar, words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    let part = |words: &mut Words<'_>, low, high, wide| {
        words.find(|word| match word {
            "lo" => Some(low),
            "hi" => Some(high),
            "wide" => Some(wide),
            _ => None,
        })
    };
    let (whole, count) = match name {
        "add" => (Whole::Add, 2),
        "sub" => (Whole::Subtract, 2),
        "mul" => (
            part(words, Whole::MultiplyLow, Whole::MultiplyHigh, Whole::MultiplyWide)
                .ok_or("`.lo`, `.hi` or `.wide` expected")?,
            2,
        ),
        "mad" => (
            part(words, Whole::MultiplyAddLow, Whole::MultiplyAddHigh, Whole::MultiplyAddWide)
                .ok_or("`.lo`, `.hi` or `.wide` expected")?,
            3,
        ),
        "div" => (Whole::Divide, 2),
        "rem" => (Whole::Remainder, 2),
        "neg" => (Whole::Negate, 1),
        "abs" => (Whole::Absolute, 1),
        "min" => (Whole::Min, 2),
        "max" => (Whole::Max, 2),
        "and" => (Whole::And, 2),
        "or" => (Whole::Or, 2),
        "xor" => (Whole::Xor, 2),
        "not" => (Whole::Not, 1),
        "cnot" => (Whole::IsZero, 1),
        "shl" => (Whole::ShiftLeft, 2),
        "shr" => (Whole::ShiftRight, 2),
        "bfe" => (Whole::ExtractField, 3),
        "bfi" => (Whole::InsertField, 4),
        "brev" => (Whole::Reverse, 1),
        "clz" => (Whole::LeadingZeros, 1),
        "popc" => (Whole::CountOnes, 1),
        "bfind" => (Whole::FindHighest, 1),
        "sad" => (Whole::AbsoluteDifference, 3),
        "prmt" => (Whole::Permute, 3),
        "shf" => {
            let wraps = words.take("wrap");
            if !wraps && !words.take("clamp") {
                return Err("`.wrap` or `.clamp` expected".to_string());
            }
            let left = words.take("l");
            if !left && !words.take("r") {
                return Err("`.l` or `.r` expected".to_string());
            }
            (if left { Whole::FunnelLeft { wraps } } else { Whole::FunnelRight { wraps } }, 3)
        }
        _ => return Err(format!("the instruction `{name}` is not modelled")),
    };
    let logic = matches!(whole, Whole::And | Whole::Or | Whole::Xor | Whole::Not);
    if !(scalar.is_whole() || scalar == Scalar::Pred && logic) {
        return Err("a type that is not modelled here".to_string());
    }
    compute(Function::Whole(whole, scalar), operands, count)
}

fn float(name: &str, scalar: Scalar, words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    // Approximations are computed exactly and rounded; "full" is one of them.
    let approximate = words.take("approx") || words.take("full");
    let rounding = words.find(rounding).unwrap_or(Rounding::Nearest);
    let flush = words.take("ftz");
    let saturate = words.take("sat");
    let nan = words.take("NaN");
    let (float, count) = match name {
        "add" => (FloatOp::Add, 2),
        "sub" => (FloatOp::Subtract, 2),
        "mul" => (FloatOp::Multiply, 2),
        "fma" | "mad" => (FloatOp::Fused, 3),
        "div" => (FloatOp::Divide, 2),
        "neg" => (FloatOp::Negate, 1),
        "abs" => (FloatOp::Absolute, 1),
        "min" => (if nan { FloatOp::MinNan } else { FloatOp::Min }, 2),
        "max" => (if nan { FloatOp::MaxNan } else { FloatOp::Max }, 2),
        "rcp" => (FloatOp::Reciprocal, 1),
        "sqrt" => (FloatOp::Root, 1),
        "rsqrt" => (FloatOp::ReciprocalRoot, 1),
        "ex2" => (FloatOp::Exp2, 1),
        "lg2" => (FloatOp::Log2, 1),
        "sin" => (FloatOp::Sine, 1),
        "cos" => (FloatOp::Cosine, 1),
        "tanh" => (FloatOp::Tanh, 1),
        "copysign" => (FloatOp::CopySign, 2),
        _ => return Err(format!("the instruction `{name}` is not modelled for this type")),
    };
    let exact = matches!(float, FloatOp::Add | FloatOp::Subtract | FloatOp::Multiply | FloatOp::Fused);
    if rounding != Rounding::Nearest && !(exact && scalar == Scalar::F32) {
        return Err("this rounding is not modelled here".to_string());
    }
    if saturate && scalar != Scalar::F32 {
        return Err("`.sat` is not modelled here".to_string());
    }
    let style = Style { rounding, flush, saturate };
    let halves = |half, packed| Function::Halves { float, half, packed };
    let function = match scalar {
        Scalar::F32 => Function::Float(float, style),
        Scalar::F64 => Function::Double(float, style),
        Scalar::F16 => halves(Half::F16, false),
        Scalar::F16x2 => halves(Half::F16, true),
        Scalar::Bf16 => halves(Half::Bf16, false),
        Scalar::Bf16x2 => halves(Half::Bf16, true),
        _ => return Err("a type that is not modelled here".to_string()),
    };
    let simple = exact
        || matches!(
            float,
            FloatOp::Negate
                | FloatOp::Absolute
                | FloatOp::Min
                | FloatOp::Max
                | FloatOp::MinNan
                | FloatOp::MaxNan
        );
    if matches!(function, Function::Halves { .. }) && (!simple || flush) {
        return Err(format!("`{name}` is not modelled for this type"));
    }
    if approximate && (simple || float == FloatOp::CopySign) {
        return Err("an approximation of what is exact".to_string());
    }
    compute(function, operands, count)
}

pub(super) fn rounding(word: &str) -> Option<Rounding> {
    Some(match word {
        "rn" => Rounding::Nearest,
        "rz" => Rounding::Zero,
        "rm" => Rounding::Down,
        "rp" => Rounding::Up,
        "rna" => Rounding::Away,
        _ => return None,
    })
}

/// The function, where the instruction uses the carry.
fn carry(name: &str, words: &Words<'_>) -> Option<Carry> {
    let with = words.left.contains(&"cc");
    Some(match name {
        "addc" => Carry::Add,
        "add" if with => Carry::Add,
        "subc" => Carry::Subtract,
        "sub" if with => Carry::Subtract,
        "madc" | "mad" if with || name == "madc" => match words.left.contains(&"hi") {
            true => Carry::MultiplyAddHigh,
            false => Carry::MultiplyAddLow,
        },
        _ => return None,
    })
}

fn function_with_carry(
    function: Carry,
    name: &str,
    words: &mut Words<'_>,
    operands: &Arguments<'_>,
) -> Result<Op, String> {
    let writes = words.take("cc");
    words.ignore(&["lo", "hi"]);
    let scalar = words.scalar()?;
    if !scalar.is_whole() || scalar.bytes() < 4 {
        return Err("a type that is not modelled here".to_string());
    }
    let count = if matches!(function, Carry::Add | Carry::Subtract) { 2 } else { 3 };
    operands.count(count + 1..=count + 1)?;
    let mut sources = [Origin::Immediate(0); 3];
    for (at, source) in sources.iter_mut().take(count).enumerate() {
        *source = operands.source(at + 1)?;
    }
    Ok(Op::Carry {
        function,
        scalar,
        dst: operands.register(0)?,
        sources,
        reads: name.ends_with('c'),
        writes,
    })
}

fn compare(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    let comparison = words
        .find(|word| {
            Some(match word {
                "eq" => Comparison::Equal,
                "ne" => Comparison::NotEqual,
                "lt" | "lo" => Comparison::Less,
                "le" | "ls" => Comparison::LessEqual,
                "gt" | "hi" => Comparison::Greater,
                "ge" | "hs" => Comparison::GreaterEqual,
                "equ" => Comparison::EqualOr,
                "neu" => Comparison::NotEqualOr,
                "ltu" => Comparison::LessOr,
                "leu" => Comparison::LessEqualOr,
                "gtu" => Comparison::GreaterOr,
                "geu" => Comparison::GreaterEqualOr,
                "num" => Comparison::BothNumbers,
                "nan" => Comparison::NotBothNumbers,
                _ => return None,
            })
        })
        .ok_or("a comparison that is not modelled")?;
    let combine = words.find(|word| {
        Some(match word {
            "and" => Combine::And,
            "or" => Combine::Or,
            "xor" => Combine::Xor,
            _ => return None,
        })
    });
    let (flush, scalar) = (words.take("ftz"), words.scalar()?);
    if matches!(scalar, Scalar::F16x2 | Scalar::Bf16x2 | Scalar::Tf32) {
        return Err("a type that is not modelled here".to_string());
    }
    let count = if combine.is_some() { 4 } else { 3 };
    operands.count(count..=count)?;
    let (third, negated) = match operands.list.get(3) {
        None => (Origin::Immediate(0), false),
        Some(Argument::Not(register)) => (Origin::Register(*register), true),
        Some(operand) => (operands.source_of(operand)?, false),
    };
    Ok(Op::Compute {
        function: Function::Compare { comparison, scalar, flush, combine, negated },
        dst: operands.register(0)?,
        sources: [operands.source(1)?, operands.source(2)?, third, Origin::Immediate(0)],
    })
}

fn convert(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    let whole = words.find(|word| match word {
        "rni" => Some(Rounding::Nearest),
        "rzi" => Some(Rounding::Zero),
        "rmi" => Some(Rounding::Down),
        "rpi" => Some(Rounding::Up),
        _ => None,
    });
    let nearest = words.find(rounding);
    let (flush, saturate) = (words.take("ftz"), words.take("sat"));
    let (to, from) = (words.scalar()?, words.scalar()?);
    let conversion = Conversion {
        to,
        from,
        rounding: whole.or(nearest).unwrap_or(Rounding::Nearest),
        to_whole: whole.is_some(),
        saturate,
        flush,
    };
    if matches!(from, Scalar::F16x2 | Scalar::Bf16x2 | Scalar::Tf32 | Scalar::Pred) || to == Scalar::Pred {
        return Err("a conversion that is not modelled".to_string());
    }
    let directed = !matches!(conversion.rounding, Rounding::Nearest);
    let known = match to {
        Scalar::Tf32 => from == Scalar::F32 && !saturate && !conversion.to_whole,
        Scalar::F16 | Scalar::Bf16 | Scalar::F16x2 | Scalar::Bf16x2 => {
            !saturate
                && !conversion.to_whole
                && matches!(conversion.rounding, Rounding::Nearest | Rounding::Zero)
        }
        Scalar::F32 => {
            !directed || conversion.to_whole || !from.is_float() || matches!(from, Scalar::F64 | Scalar::F32)
        }
        Scalar::F64 => (!directed || conversion.to_whole) && !saturate,
        _ => !from.is_float() || conversion.to_whole,
    };
    if !known || (conversion.rounding == Rounding::Away && to != Scalar::Tf32) {
        return Err("a conversion that is not modelled".to_string());
    }
    // Two numbers packed into one register.
    let count = if matches!(to, Scalar::F16x2 | Scalar::Bf16x2) { 2 } else { 1 };
    if count == 2 && from != Scalar::F32 {
        return Err("a conversion that is not modelled".to_string());
    }
    compute(Function::Convert(conversion), operands, count)
}
