//! What threads do together: barriers, shuffles, votes, tensor cores.

use super::{Arguments, Words};
use crate::op::{Action, Factor, Fragment, Mma, Op, Shuffle, Tile, Together, Vote};
use crate::operand::{Argument, Origin};
use crate::scalar::Scalar;

/// All lanes: what `.aligned` demands.
const ALL: Origin = Origin::Immediate(0xffff_ffff);

pub(super) fn decode(name: &str, words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    Ok(match name {
        "bar" if words.take("warp") => {
            words.ignore(&["sync"]);
            operands.count(1..=1)?;
            Op::Together { what: Together::Barrier, members: operands.source(0)? }
        }
        "bar" | "barrier" => {
            if !words.take("sync") {
                return Err("a barrier that is not modelled".to_string());
            }
            words.ignore(&["cta", "aligned"]);
            operands.count(1..=2)?;
            let threads = if operands.list.len() > 1 { Some(operands.source(1)?) } else { None };
            Op::Barrier { id: operands.source(0)?, threads }
        }
        "activemask" => {
            words.scalar()?;
            operands.count(1..=1)?;
            Op::ActiveMask { dst: operands.register(0)? }
        }
        "shfl" => shuffle(words, operands)?,
        "vote" => vote(words, operands)?,
        "redux" => reduce(words, operands)?,
        "ldmatrix" => matrix_load(words, operands)?,
        "mma" => mma(words, operands)?,
        _ => wmma(words, operands)?,
    })
}

fn shuffle(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    synced(words)?;
    let mode = words
        .find(|word| {
            Some(match word {
                "bfly" => Shuffle::Xor,
                "down" => Shuffle::Down,
                "up" => Shuffle::Up,
                "idx" => Shuffle::Index,
                _ => return None,
            })
        })
        .ok_or("a shuffle that is not modelled")?;
    words.scalar()?;
    operands.count(5..=5)?;
    let (dst, valid) = match operands.get(0)? {
        Argument::Pair(Some(dst), valid) => (*dst, *valid),
        _ => (operands.register(0)?, None),
    };
    let [source, lane, clamp, members] =
        [operands.source(1)?, operands.source(2)?, operands.source(3)?, operands.source(4)?];
    Ok(Op::Together { what: Together::Shuffle { mode, dst, valid, source, lane, clamp }, members })
}

fn vote(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    synced(words)?;
    let vote = words
        .find(|word| {
            Some(match word {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uniform,
                "ballot" => Vote::Ballot,
                _ => return None,
            })
        })
        .ok_or("a vote that is not modelled")?;
    words.scalar()?;
    operands.count(3..=3)?;
    let (predicate, negated) = match operands.get(1)? {
        Argument::Not(register) => (Origin::Register(*register), true),
        _ => (operands.source(1)?, false),
    };
    let what = Together::Vote { vote, dst: operands.register(0)?, predicate, negated };
    Ok(Op::Together { what, members: operands.source(2)? })
}

fn reduce(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    synced(words)?;
    let action = words
        .find(|word| {
            Some(match word {
                "add" => Action::Add,
                "min" => Action::Min,
                "max" => Action::Max,
                "and" => Action::And,
                "or" => Action::Or,
                "xor" => Action::Xor,
                _ => return None,
            })
        })
        .ok_or("a reduction that is not modelled")?;
    let scalar = words.scalar()?;
    if !scalar.is_whole() || scalar.bytes() != 4 {
        return Err("a type that is not modelled here".to_string());
    }
    operands.count(3..=3)?;
    let what = Together::Reduce { action, scalar, dst: operands.register(0)?, source: operands.source(1)? };
    Ok(Op::Together { what, members: operands.source(2)? })
}

fn matrix_load(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    synced(words)?;
    words.ignore(&["aligned"]);
    let count = words.find(|word| ["x1", "x2", "", "x4"].iter().position(|known| *known == word));
    let count = count.ok_or("a number of matrices that is not modelled")? + 1;
    let (shape, transposed, space) = (words.take("m8n8"), words.take("trans"), words.space());
    if !shape || words.scalar()? != Scalar::B16 {
        return Err("matrices of this shape are not modelled".to_string());
    }
    operands.count(2..=2)?;
    let dsts = operands.registers_in(0)?;
    if dsts.len() != count {
        return Err(format!("{} registers for {count} matrices", dsts.len()));
    }
    let what = Together::MatrixLoad { space, dsts, transposed, address: operands.address(1)? };
    Ok(Op::Together { what, members: ALL })
}

fn mma(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    synced(words)?;
    words.ignore(&["aligned"]);
    let (m, n, k) = shape(words)?;
    if !(words.take("row") && words.take("col")) {
        return Err("this layout is not modelled".to_string());
    }
    let [d, a, b, c] = [words.scalar()?, words.scalar()?, words.scalar()?, words.scalar()?];
    let factor = factor(a)?;
    let known = match factor {
        Factor::F16 => matches!((m, n, k), (16, 8, 8 | 16)),
        Factor::Bf16 => matches!((m, n, k), (16, 8, 8 | 16)),
        Factor::Tf32 => matches!((m, n, k), (16, 8, 4 | 8)),
    };
    if !known || a != b || d != c {
        return Err("a product of this shape or type is not modelled".to_string());
    }
    product(
        Mma {
            m,
            n,
            k,
            factor,
            fragment: Fragment::Documented,
            wide: wide(d, factor)?,
            d: vec![],
            a: vec![],
            b: vec![],
            c: vec![],
        },
        operands,
    )
}

fn wmma(words: &mut Words<'_>, operands: &Arguments<'_>) -> Result<Op, String> {
    let (load, store) = (words.take("load"), words.take("store"));
    if !load && !store {
        if !words.take("mma") {
            return Err("a tile instruction that is not modelled".to_string());
        }
        synced(words)?;
        words.ignore(&["aligned"]);
        let (m, n, k) = shape(words)?;
        // The layout of factors was said when they were loaded.
        words.ignore(&["row", "col"]);
        let first = words.scalar()?;
        let second = words.scalar()?;
        let (d, factor) = match words.scalar() {
            Ok(_) => {
                words.scalar()?;
                (first, factor(second)?)
            }
            Err(_) => (first, Factor::F16),
        };
        if !matches!((m, n, k, factor), (16, 16, 16, Factor::F16 | Factor::Bf16) | (16, 16, 8, Factor::Tf32))
        {
            return Err("a product of this shape or type is not modelled".to_string());
        }
        let wide = wide(d, factor)?;
        return product(
            Mma {
                m,
                n,
                k,
                factor,
                fragment: Fragment::Opaque,
                wide,
                d: vec![],
                a: vec![],
                b: vec![],
                c: vec![],
            },
            operands,
        );
    }
    let which = words.find(|word| ["a", "b", "c", "d"].iter().position(|known| *known == word));
    let which = which.ok_or("a tile that is not modelled")?;
    synced(words)?;
    words.ignore(&["aligned"]);
    let row_major = words.take("row");
    if !row_major && !words.take("col") {
        return Err("`.row` or `.col` expected".to_string());
    }
    let ((m, n, k), space, scalar) = (shape(words)?, words.space(), words.scalar()?);
    let (rows, columns) = match which {
        0 => (m, k),
        1 => (k, n),
        _ => (m, n),
    };
    operands.count(2..=3)?;
    let (at, registers) = if load { (1, 0) } else { (0, 1) };
    let lead = if row_major { columns } else { rows };
    let stride = if operands.list.len() > 2 { operands.source(2)? } else { Origin::Immediate(lead as u64) };
    let tile = Tile {
        rows,
        columns,
        scalar,
        row_major,
        space,
        address: operands.address(at)?,
        stride,
        registers: operands.sources_in(registers)?,
    };
    let expected = fragment_registers(&tile);
    let bytes = if scalar == Scalar::Tf32 { 4 } else { scalar.bytes() };
    if tile.registers.len() != expected || !matches!(bytes, 2 | 4) || rows * columns > 256 {
        return Err(format!("{} registers for a tile that takes {expected}", tile.registers.len()));
    }
    if load && tile.registers.iter().any(|register| !matches!(register, Origin::Register(_))) {
        return Err("a destination that is no register".to_string());
    }
    let what = if load { Together::TileLoad(Box::new(tile)) } else { Together::TileStore(Box::new(tile)) };
    Ok(Op::Together { what, members: ALL })
}

/// f16 factors take eight registers, twice what their elements need.
fn fragment_registers(tile: &Tile) -> usize {
    let elements = tile.rows * tile.columns / 32;
    match tile.scalar {
        Scalar::F16 if tile.rows * tile.columns == 256 => 8,
        Scalar::Bf16 => elements / 2,
        _ => elements,
    }
}

fn product(mut mma: Mma, operands: &Arguments<'_>) -> Result<Op, String> {
    operands.count(4..=4)?;
    mma.d = operands.registers_in(0)?;
    mma.a = operands.registers_in(1)?;
    mma.b = operands.registers_in(2)?;
    mma.c = operands.sources_in(3)?;
    let sums = if mma.wide { mma.m * mma.n / 32 } else { mma.m * mma.n / 64 };
    let factors = |elements: usize| match (mma.factor, mma.fragment) {
        (Factor::Tf32, _) => elements / 32,
        (Factor::F16, Fragment::Opaque) => elements / 32,
        _ => elements / 64,
    };
    let right = mma.d.len() == sums
        && mma.c.len() == sums
        && mma.a.len() == factors(mma.m * mma.k)
        && mma.b.len() == factors(mma.k * mma.n);
    if right {
        Ok(Op::Together { what: Together::Mma(Box::new(mma)), members: ALL })
    } else {
        Err("a number of registers that does not fit".to_string())
    }
}

fn factor(scalar: Scalar) -> Result<Factor, String> {
    match scalar {
        Scalar::F16 => Ok(Factor::F16),
        Scalar::Bf16 => Ok(Factor::Bf16),
        Scalar::Tf32 => Ok(Factor::Tf32),
        _ => Err("factors of this type are not modelled".to_string()),
    }
}

fn wide(scalar: Scalar, factor: Factor) -> Result<bool, String> {
    match scalar {
        Scalar::F32 => Ok(true),
        Scalar::F16 if factor == Factor::F16 => Ok(false),
        _ => Err("sums of this type are not modelled".to_string()),
    }
}

/// `m16n8k16` as numbers.
fn shape(words: &mut Words<'_>) -> Result<(usize, usize, usize), String> {
    let parse = |word: &str| {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
    };
    words.find(parse).ok_or_else(|| "a shape that is not modelled".to_string())
}

fn synced(words: &mut Words<'_>) -> Result<(), String> {
    if words.take("sync") {
        Ok(())
    } else {
        Err("`.sync` expected: what came before it is not modelled".to_string())
    }
}
