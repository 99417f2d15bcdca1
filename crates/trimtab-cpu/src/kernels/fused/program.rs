//! A recipe as instructions for a machine with one value in registers: what the steps leave waiting is read where it lies,
//! and only what has to make room is put aside.

use trimtab_core::{
    BinaryOp, ElementwiseOp, Fused, MAX_INPUTS, MAX_NUMBERS, MAX_STEPS, MAX_WAITING, Step, UnaryOp,
};

/// Places a value can be read from: inputs, numbers, the product, values put aside.
pub(super) const PLACES: usize = ASIDE + MAX_WAITING;
/// The first number.
pub(super) const NUMBERS: usize = MAX_INPUTS;
/// The product.
pub(super) const PRODUCT: usize = NUMBERS + MAX_NUMBERS;
/// The first value put aside.
pub(super) const ASIDE: usize = PRODUCT + 1;

/// Most instructions of a program: those of a step, and for each that fetches at most two, to fetch and to make room. Half
/// the steps fetch at most, for every second value that waits a step takes away.
pub(super) const MAX_CODES: usize = MAX_STEPS + 2 * MAX_STEPS.div_ceil(2);

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    /// Brings the value at a place into the registers.
    Fetch,
    /// Writes the registers to a place.
    PutAside,
    /// A function of the registers.
    Unary,
    /// A function of the registers and, as the right operand, the value at a place.
    Apply,
    /// A function of the value at a place and, as the right operand, the registers.
    Reversed,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) kind: Opcode,
    /// What is computed, where something is.
    pub(super) op: ElementwiseOp,
    pub(super) place: u8,
}

impl Code {
    const fn new(kind: Opcode, op: ElementwiseOp, place: u8) -> Code {
        Code { kind, op, place }
    }

    /// One that moves a value.
    const fn moves(kind: Opcode, place: u8) -> Code {
        Code::new(kind, ElementwiseOp::Unary(UnaryOp::Neg), place)
    }
}

/// The instructions of a recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    codes: [Code; MAX_CODES],
    count: usize,
}

/// A value the steps so far have left.
#[derive(Clone, Copy)]
struct Value {
    /// Where it is; `None` for the registers.
    place: Option<u8>,
    /// The first of the steps it comes from, and instructions before the first of its own.
    step: usize,
    codes: usize,
}

impl Program {
    /// The instructions for a recipe.
    pub(super) fn new(recipe: &Fused) -> Program {
        let mut steps = [Step::Product; MAX_STEPS];
        steps.iter_mut().zip(recipe.steps()).for_each(|(to, step)| *to = step);
        let mut program = Program { codes: [Code::moves(Opcode::Fetch, 0); MAX_CODES], count: 0 };
        let mut waiting = Waiting { values: [None; MAX_WAITING + 1], count: 0 };
        for (at, &step) in steps[..recipe.steps().len()].iter().enumerate() {
            let place = match step {
                Step::Input(input) => Some(input),
                Step::Number(number) => Some(NUMBERS as u8 + number),
                Step::Product => Some(PRODUCT as u8),
                Step::Unary(op) => {
                    let Some(value) = waiting.pop() else { continue };
                    program.hold(&mut waiting, value);
                    program.push(Code::new(Opcode::Unary, ElementwiseOp::Unary(op), 0));
                    waiting.push(Value { place: None, ..value });
                    None
                }
                Step::Binary(op) => {
                    let (Some(right), Some(left)) = (waiting.pop(), waiting.pop()) else { continue };
                    let alike = steps[left.step..right.step] == steps[right.step..at];
                    program.binary(&mut waiting, op, left, right, alike);
                    waiting.push(Value { place: None, ..left });
                    None
                }
            };
            if place.is_some() {
                waiting.push(Value { place, step: at, codes: program.count });
            }
        }
        if let Some(last) = waiting.pop() {
            program.hold(&mut waiting, last);
        }
        program
    }

    /// The instructions, in order.
    #[inline(always)]
    pub(super) fn codes(&self) -> &[Code] {
        &self.codes[..self.count]
    }

    fn push(&mut self, code: Code) {
        if let Some(place) = self.codes.get_mut(self.count) {
            *place = code;
            self.count += 1;
        }
    }

    /// Brings a value into the registers; what is in them is put aside.
    fn hold(&mut self, waiting: &mut Waiting, value: Value) {
        let Some(place) = value.place else { return };
        let held = waiting.values[..waiting.count].iter_mut().enumerate();
        for (depth, value) in held.filter_map(|(depth, value)| Some((depth, value.as_mut()?))) {
            if value.place.is_none() {
                let aside = (ASIDE + depth) as u8;
                value.place = Some(aside);
                self.push(Code::moves(Opcode::PutAside, aside));
            }
        }
        self.push(Code::moves(Opcode::Fetch, place));
    }

    fn binary(&mut self, waiting: &mut Waiting, op: BinaryOp, left: Value, right: Value, alike: bool) {
        let op = ElementwiseOp::Binary(op);
        let computed = right.place.is_none();
        if alike && computed {
            // The same once more, as in a square: nothing of the right one is computed. The left one was in the registers
            // when the right one began, and its place when it was put aside is free.
            self.count = right.codes;
            let aside = (ASIDE + waiting.count) as u8;
            self.push(Code::moves(Opcode::PutAside, aside));
            self.push(Code::new(Opcode::Apply, op, aside));
            return;
        }
        match (left.place, right.place) {
            (None, Some(right)) => self.push(Code::new(Opcode::Apply, op, right)),
            (Some(left), None) => self.push(Code::new(Opcode::Reversed, op, left)),
            (_, right) => {
                self.hold(waiting, left);
                self.push(Code::new(Opcode::Apply, op, right.unwrap_or(0)));
            }
        }
    }
}

/// Values that wait for their use.
struct Waiting {
    values: [Option<Value>; MAX_WAITING + 1],
    count: usize,
}

impl Waiting {
    fn push(&mut self, value: Value) {
        if let Some(place) = self.values.get_mut(self.count) {
            *place = Some(value);
            self.count += 1;
        }
    }

    fn pop(&mut self) -> Option<Value> {
        self.count = self.count.checked_sub(1)?;
        self.values[self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::Problem;

    fn codes(text: &str) -> Vec<Code> {
        let Problem::Fused(recipe) = text.parse().unwrap() else { panic!("{text}") };
        Program::new(&recipe).codes().to_vec()
    }

    const ADD: ElementwiseOp = ElementwiseOp::Binary(BinaryOp::Add);
    const SUB: ElementwiseOp = ElementwiseOp::Binary(BinaryOp::Sub);
    const MUL: ElementwiseOp = ElementwiseOp::Binary(BinaryOp::Mul);
    const RELU: ElementwiseOp = ElementwiseOp::Unary(UnaryOp::Relu);
    fn fetch(place: u8) -> Code {
        Code::moves(Opcode::Fetch, place)
    }
    fn put_aside(place: u8) -> Code {
        Code::moves(Opcode::PutAside, place)
    }
    fn apply(op: ElementwiseOp, place: u8) -> Code {
        let kind = if matches!(op, ElementwiseOp::Unary(_)) { Opcode::Unary } else { Opcode::Apply };
        Code::new(kind, op, place)
    }
    fn reversed(op: ElementwiseOp, place: u8) -> Code {
        Code::new(Opcode::Reversed, op, place)
    }

    const FIRST: u8 = NUMBERS as u8;
    const AWAY: u8 = ASIDE as u8;

    #[test]
    fn a_chain_fetches_once_and_reads_the_rest_in_place() {
        assert_eq!(
            codes("fused.relu(add(mul(a,#0),b)):f32:4x8:all,columns"),
            [fetch(0), apply(MUL, FIRST), apply(ADD, 1), apply(RELU, 0)]
        );
        assert_eq!(
            codes("fused.sub(#0,relu(a)):f32:1x8:all"),
            [fetch(0), apply(RELU, 0), reversed(SUB, FIRST)]
        );
        assert_eq!(codes("fused.a:f32:1x8:all"), [fetch(0)]);
    }

    #[test]
    fn what_is_in_the_registers_makes_room_and_comes_back() {
        assert_eq!(
            codes("fused.sub(add(a,b),mul(a,b)):f32:1x8:all,all"),
            [fetch(0), apply(ADD, 1), put_aside(AWAY), fetch(0), apply(MUL, 1), reversed(SUB, AWAY)]
        );
    }

    #[test]
    fn the_same_twice_is_computed_once() {
        assert_eq!(
            codes("fused.mul(sub(a,b),sub(a,b)):f32:1x8:all,all"),
            [fetch(0), apply(SUB, 1), put_aside(AWAY), apply(MUL, AWAY)]
        );
        assert_eq!(codes("fused.mul(a,a):f32:1x8:all"), [fetch(0), apply(MUL, 0)]);
        assert_eq!(
            codes("fused.add(relu(b),mul(sub(a,b),sub(a,b))):f32:1x8:all,all"),
            [
                fetch(1),
                apply(RELU, 0),
                put_aside(AWAY),
                fetch(0),
                apply(SUB, 1),
                put_aside(AWAY + 1),
                apply(MUL, AWAY + 1),
                reversed(ADD, AWAY)
            ]
        );
    }
}
