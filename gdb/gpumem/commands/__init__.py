"""The commands, one file each."""


def install_all():
    from . import gpumem, next_event, record, until, up_down, watch, where
    from .question import install_questions

    gpumem.Gpumem()
    record.Record()
    next_event.NextEvent()
    next_event.Step()
    until.Until()
    watch.Watch()
    where.Where()
    up_down.Up()
    up_down.Down()
    install_questions(skip={"record", "next-event", "step", "until", "watch", "where"})
