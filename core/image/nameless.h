/* Files without a name, which go away with us. Inside of the image room. */
#ifndef GM_IMAGE_NAMELESS_H
#define GM_IMAGE_NAMELESS_H

/* In `folder`; -1: not possible there. */
int gm_nameless_file_in(const char *folder);
/* In TMPDIR, else /var/tmp (on a disk, where /tmp may be memory), else /tmp; -1: in none of
 * them. */
int gm_nameless_file(void);

#endif
