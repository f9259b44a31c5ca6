"""The commands, one file each."""


def install_all():
    from . import gpumem, next_event, record, until, watch, where
    from .question import install_questions

    gpumem.Gpumem()
    record.Record()
    next_event.NextEvent()
    next_event.Step()
    until.Until()
    watch.Watch()
    where.Where()
    install_questions(skip={"record", "next-event", "step", "until", "watch", "where"})
