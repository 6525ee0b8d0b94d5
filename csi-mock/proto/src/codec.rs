//! Codec of the messages with small initial buffers.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Initial buffer size in bytes; most messages are smaller. tonic uses 8 KiB, four times in each call.
const USUAL_BYTES: usize = 512;
/// Bytes of a stream after which the output is sent: tonic's value.
const YIELD_BYTES: usize = 32 * 1024;

/// Prost's codec with small initial buffers.
#[derive(Debug, Clone)]
pub struct Compact<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Compact<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(USUAL_BYTES, YIELD_BYTES)
}

impl<T, U> Codec for Compact<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(settings())
    }
}
