#include "image/build_id.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENTS_MAX = 64, NOTES_MAX = 4096 };

/* The note's name is "GNU", its type NT_GNU_BUILD_ID (elf.h); sizes are rounded up to 4. */
bool gm_build_id_in_notes(
        const uint8_t *notes, size_t size, size_t most, struct gm_build_id *ret_id)
{
	size_t at = 0;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		uint64_t name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		uint64_t content = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
		if (name > size - at || content > size - at - name)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		        memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz > 0 &&
		        note.n_descsz <= most && note.n_descsz <= GM_BUILD_ID_MAX) {
			ret_id->size = note.n_descsz;
			memcpy(ret_id->bytes, notes + at + name, note.n_descsz);
			return true;
		}
		at += name + content;
	}
	return false;
}

bool gm_build_id_read(gm_file_bytes bytes, void *context, struct gm_build_id *ret_id)
{
	Elf64_Ehdr header;
	if (!bytes(context, 0, &header, sizeof(header)) ||
	        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	        header.e_machine != EM_X86_64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return false;
	for (size_t i = 0; i < header.e_phnum && i < SEGMENTS_MAX; i++) {
		Elf64_Phdr segment;
		uint8_t notes[NOTES_MAX];
		if (header.e_phoff > UINT32_MAX ||
		        !bytes(context, header.e_phoff + i * sizeof(segment), &segment,
		                sizeof(segment)))
			return false;
		if (segment.p_type != PT_NOTE)
			continue;
		size_t size = segment.p_filesz < NOTES_MAX ? (size_t)segment.p_filesz : NOTES_MAX;
		if (bytes(context, segment.p_offset, notes, size) &&
		        gm_build_id_in_notes(notes, size, GM_BUILD_ID_MAX, ret_id))
			return true;
	}
	return false;
}

bool gm_build_id_equal(const struct gm_build_id *left, const struct gm_build_id *right)
{
	return left->size == right->size && memcmp(left->bytes, right->bytes, left->size) == 0;
}

const char *gm_build_id_text(const struct gm_build_id *id, char text[GM_BUILD_ID_TEXT])
{
	text[0] = '\0';
	for (size_t i = 0; i < id->size; i++)
		snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
	return text;
}
