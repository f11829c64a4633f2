//go:build !purego

#include "textflag.h"

// The two halves of a byte select from escapeLow and escapeHigh. What they have in common says what
// the byte may be in an escape. Bits 0 to 3: behind a backslash (" and /, \, b f n, r t); bits 4
// and 5: a digit of the four after a u (0 to 9, A to F in both cases); bit 6: the u.
//
// A byte's halves and the high half of the next one select from first, second and third. A bit in
// common says what is wrong with the two as UTF-8, by the algorithm of Keiser and Lemire
// ("Validating UTF-8 In Less Than One Instruction Per Byte"). Bit 7 says that both continue a
// character, which is right two or three bytes after its first one.
DATA escapeLow<>+0(SB)/8, $0x10347038303d3010
DATA escapeLow<>+8(SB)/8, $0x0104000200001010
GLOBL escapeLow<>(SB), RODATA|NOPTR, $16
DATA escapeHigh<>+0(SB)/8, $0x4824022010010000
DATA escapeHigh<>+8(SB)/8, $0x0000000000000000
GLOBL escapeHigh<>(SB), RODATA|NOPTR, $16
DATA first<>+0(SB)/8, $0x0202020202020202
DATA first<>+8(SB)/8, $0x4915012180808080
GLOBL first<>(SB), RODATA|NOPTR, $16
DATA second<>+0(SB)/8, $0xcbcbcb8b8383a3e7
DATA second<>+8(SB)/8, $0xcbcbdbcbcbcbcbcb
GLOBL second<>(SB), RODATA|NOPTR, $16
DATA third<>+0(SB)/8, $0x0101010101010101
DATA third<>+8(SB)/8, $0x01010101babaaee6
GLOBL third<>(SB), RODATA|NOPTR, $16

// Bytes that are compared with all others.
DATA bytes<>+0(SB)/8, $0x308070600f205c22
DATA bytes<>+8(SB)/8, $0x0000000000000040
GLOBL bytes<>(SB), RODATA|NOPTR, $16

// UTF8 leaves in Y3 what is wrong with the characters of a register, which is at an offset of the
// step. The three bytes before it count.
#define UTF8(register, offset) \
	VMOVDQU offset-1(SI)(AX*1), Y2 \
	VPSRLW $4, Y2, Y3 \
	VPAND Y9, Y3, Y3 \
	VPSHUFB Y3, Y12, Y3 \
	VPAND Y9, Y2, Y2 \
	VPSHUFB Y2, Y13, Y2 \
	VPAND Y2, Y3, Y3 \
	VPSRLW $4, register, Y2 \
	VPAND Y9, Y2, Y2 \
	VPSHUFB Y2, Y14, Y2 \
	VPAND Y2, Y3, Y3 \
	VMOVDQU offset-2(SI)(AX*1), Y2 \
	VPBROADCASTB bytes<>+4(SB), Y4 \
	VPSUBUSB Y4, Y2, Y2 \
	VMOVDQU offset-3(SI)(AX*1), Y5 \
	VPBROADCASTB bytes<>+5(SB), Y4 \
	VPSUBUSB Y4, Y5, Y5 \
	VPOR Y5, Y2, Y2 \
	VPBROADCASTB bytes<>+6(SB), Y4 \
	VPAND Y4, Y2, Y2 \
	VPXOR Y2, Y3, Y3

// ESCAPE leaves what the bytes of a register may be in an escape.
#define ESCAPE(register, class) \
	VPSRLW $4, register, Y3 \
	VPAND Y9, Y3, Y3 \
	VPSHUFB Y3, Y11, Y3 \
	VPSHUFB register, Y10, Y2 \
	VPAND Y2, Y3, class

// LACKS sets the bits of the bytes in Y4 and Y5 that have none of some bits. It needs R13.
#define LACKS(some, bits) \
	VPXOR Y2, Y2, Y2 \
	VPAND some, Y4, Y3 \
	VPCMPEQB Y2, Y3, Y3 \
	VPMOVMSKB Y3, bits \
	VPAND some, Y5, Y3 \
	VPCMPEQB Y2, Y3, Y3 \
	VPMOVMSKB Y3, R13 \
	SHLQ $32, R13 \
	ORQ R13, bits

// EQUAL sets the bits of the bytes in Y0 and Y1 that are equal to another. It needs R8.
#define EQUAL(other, bits) \
	VPCMPEQB other, Y0, Y2 \
	VPCMPEQB other, Y1, Y3 \
	VPMOVMSKB Y2, R8 \
	VPMOVMSKB Y3, bits \
	SHLQ $32, bits \
	ORQ R8, bits

// func wide(b []byte, i int) int
TEXT ·wide(SB), NOSPLIT, $0-40
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	MOVQ i+24(FP), AX
	SUBQ $64, CX // the last step begins here
	XORQ DX, DX // 1: the byte before the step is a backslash that escapes the next one
	MOVQ $0x5555555555555555, DI
	VPBROADCASTB bytes<>+0(SB), Y6 // quotation marks
	VPBROADCASTB bytes<>+1(SB), Y7 // backslashes
	VPBROADCASTB bytes<>+2(SB), Y8 // blanks
	VPBROADCASTB bytes<>+3(SB), Y9 // low halves
	VBROADCASTI128 escapeLow<>(SB), Y10
	VBROADCASTI128 escapeHigh<>(SB), Y11
	VBROADCASTI128 first<>(SB), Y12
	VBROADCASTI128 second<>(SB), Y13
	VBROADCASTI128 third<>(SB), Y14

step: // it begins with a whole character, and not behind a backslash
	CMPQ AX, CX
	JGT  done
	PREFETCHT0 512(SI)(AX*1) // beyond the end it does nothing
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VPCMPGTB Y0, Y8, Y2 // a control character, or not ASCII
	VPCMPGTB Y1, Y8, Y3
	VPOR Y2, Y3, Y3
	VPCMPEQB Y6, Y0, Y4
	VPCMPEQB Y6, Y1, Y5
	VPOR Y4, Y3, Y3
	VPOR Y5, Y3, Y3
	VPCMPEQB Y7, Y0, Y4
	VPCMPEQB Y7, Y1, Y5
	VPOR Y4, Y3, Y3
	VPOR Y5, Y3, Y3
	VPTEST Y3, Y3
	JNZ  mixed
	ADDQ $64, AX
	JMP  step

next:
	ADDQ $64, AX

again:
	MOVBLZX -1(SI)(AX*1), R8
	ANDL $0x80, R8 // a character that goes beyond the step
	ORL  DX, R8
	JZ   step
	CMPQ AX, CX
	JGT  done
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1

mixed:
	VPMAXUB Y8, Y0, Y2
	VPMAXUB Y8, Y1, Y3
	VPCMPEQB Y0, Y2, Y2
	VPCMPEQB Y1, Y3, Y3
	VPAND Y2, Y3, Y2
	VPMOVMSKB Y2, R8
	CMPL R8, $-1
	JNE  done // at a control character
	VPOR -3(SI)(AX*1), Y0, Y2
	VPOR Y1, Y2, Y2
	VPMOVMSKB Y2, R8
	TESTL R8, R8
	JZ   ascii
	UTF8(Y0, 0)
	VPTEST Y3, Y3
	JNZ  done
	UTF8(Y1, 32)
	VPTEST Y3, Y3
	JNZ  done

ascii:
	EQUAL(Y6, R9)
	EQUAL(Y7, R10)
	MOVQ R10, R8
	ORQ  DX, R8
	JNZ  escapes
	TESTQ R9, R9
	JNZ  done // at the end of the string
	JMP  next

escapes:
	// Which bytes are escaped: in a run of backslashes every second one, and the byte behind it if
	// their number is odd. Runs that begin at odd positions are told apart by a sum, whose carry
	// passes through a run to the byte behind it.
	MOVQ DX, R11
	MOVQ DX, R12
	NOTQ R12
	ANDQ R10, R12 // the backslashes that may escape
	LEAQ (DX)(R12*2), R13 // what stands behind one
	MOVQ R13, R8
	ORQ  DI, R8
	NOTQ R8
	ANDQ R12, R8 // the first of runs, at odd positions
	ADDQ R12, R8
	SBBQ DX, DX
	NEGQ DX
	ADDQ R8, R8
	XORQ DI, R8
	ANDQ R13, R8 // what is escaped
	MOVQ R8, R12
	NOTQ R12
	ANDQ R9, R12
	JNZ  undone // at the end of the string
	ESCAPE(Y0, Y4)
	ESCAPE(Y1, Y5)
	LACKS(Y9, R12)
	ANDQ R8, R12
	JZ   next

	// These are escaped and must be a u, with four digits behind it.
	VPBROADCASTB bytes<>+8(SB), Y0
	LACKS(Y0, R8)
	TESTQ R8, R12
	JNZ  undone
	VPBROADCASTB bytes<>+7(SB), Y0
	LACKS(Y0, R8)
	MOVQ $64, BX
	MOVQ R12, R13
	SHRQ $60, R13
	JZ   digits
	BSRQ R12, BX // an escape goes beyond the step: the next one begins with it
	DECQ BX

digits: // those of a cut escape that are in the step, too: so it does not end with a backslash
	MOVQ R12, R13
	ADDQ R13, R13
	ORQ  R12, R13
	LEAQ (R13*4), R12
	ORQ  R13, R12
	ADDQ R12, R12 // the four bytes behind each
	TESTQ R8, R12
	JNZ  undone
	ADDQ BX, AX
	JMP  again

undone:
	MOVQ R11, DX

done:
	SUBQ DX, AX
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET
