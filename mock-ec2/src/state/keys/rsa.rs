//! RSA keys of 2,048 bits, derived from a stream of random bytes.

use num_bigint::BigUint;

use super::der;

/// Bits of a prime; the modulus has two primes.
const PRIME_BITS: u64 = 1_024;
/// Rounds of the Miller–Rabin test. For random candidates of this size the error probability is below 2^-100.
const ROUNDS: usize = 5;
/// Limit of the small primes that reject most candidates.
const SMALL: u32 = 2_000;
const EXPONENT: u32 = 65_537;

/// A private key.
#[derive(Debug)]
pub(super) struct Private {
    n: BigUint,
    d: BigUint,
    p: BigUint,
    q: BigUint,
}

impl Private {
    /// Generates the key from `fill`, which fills a buffer with random bytes.
    pub(super) fn generate(mut fill: impl FnMut(&mut [u8])) -> Self {
        let small = small_primes();
        let one = BigUint::from(1_u32);
        let e = BigUint::from(EXPONENT);
        loop {
            let (p, q) = (prime(&mut fill, &small), prime(&mut fill, &small));
            let (p, q) = if p < q { (q, p) } else { (p, q) };
            let totient = (&p - &one) * (&q - &one);
            if p != q
                && let Some(d) = e.modinv(&totient)
            {
                return Self { n: &p * &q, d, p, q };
            }
        }
    }

    /// Encodes the key in PKCS#1 format (RFC 8017, A.1.2).
    pub(super) fn pkcs1(&self) -> Vec<u8> {
        let one = BigUint::from(1_u32);
        let (dp, dq) = (&self.d % (&self.p - &one), &self.d % (&self.q - &one));
        let inverse = self.q.modinv(&self.p).unwrap_or_default();
        let e = BigUint::from(EXPONENT);
        let numbers = [&BigUint::ZERO, &self.n, &e, &self.d, &self.p, &self.q, &dp, &dq, &inverse];
        der::sequence(numbers.map(|n| der::integer(&n.to_bytes_be())).concat())
    }

    /// Returns the modulus and the exponent, big-endian.
    pub(super) fn public(&self) -> (Vec<u8>, Vec<u8>) {
        (self.n.to_bytes_be(), BigUint::from(EXPONENT).to_bytes_be())
    }
}

fn small_primes() -> Vec<u32> {
    (3..SMALL).step_by(2).filter(|n| (3..).step_by(2).take_while(|d| d * d <= *n).all(|d| n % d != 0)).collect()
}

/// Returns a prime whose two highest bits are set, so that the product of two has twice as many bits.
fn prime(fill: &mut impl FnMut(&mut [u8]), small: &[u32]) -> BigUint {
    let mut bytes = [0; (PRIME_BITS / 8) as usize];
    loop {
        fill(&mut bytes);
        let mut candidate = BigUint::from_bytes_be(&bytes);
        for bit in [0, PRIME_BITS - 2, PRIME_BITS - 1] {
            candidate.set_bit(bit, true);
        }
        let divides = |prime: &u32| &candidate % *prime == BigUint::ZERO;
        if !small.iter().any(divides) && is_prime(&candidate, small) {
            return candidate;
        }
    }
}

/// Miller–Rabin test with the first small bases.
fn is_prime(n: &BigUint, bases: &[u32]) -> bool {
    let one = BigUint::from(1_u32);
    let less = n - &one;
    let twos = less.trailing_zeros().unwrap_or(0);
    let odd = &less >> twos;
    bases.iter().take(ROUNDS).all(|base| {
        let mut x = BigUint::from(*base).modpow(&odd, n);
        if x == one || x == less {
            return true;
        }
        (1..twos).any(|_| {
            x = &x * &x % n;
            x == less
        })
    })
}
